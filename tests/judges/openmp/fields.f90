! Fortran: whole arrays, reductions, complex numbers, an internal procedure.
program fields
  use omp_lib
  implicit none
  integer, parameter :: n = 2000
  real(8) :: a(n), b(n), total
  complex(8) :: z(n), s
  integer :: i, k, most
  integer, allocatable :: grid(:, :)
  do i = 1, n
    a(i) = mod(i, 31)
    b(i) = 0.5d0 * mod(i, 7)
    z(i) = cmplx(mod(i, 5), mod(i, 3), 8)
  end do
  total = 0
  most = 0
  !$omp target teams distribute parallel do reduction(+:total) reduction(max:most)
  do i = 1, n
    total = total + a(i) * b(i)
    most = max(most, mod(i * 17, 1999))
  end do
  print '(a,f16.4,i8)', 'dot ', total, most
  s = 0
  !$omp target teams distribute parallel do reduction(+:s)
  do i = 1, n
    s = s + z(i) * conjg(z(n + 1 - i))
  end do
  print '(a,2f16.4)', 'complex ', s
  allocate (grid(40, 50))
  grid = 0
  !$omp target teams distribute parallel do collapse(2) map(tofrom:grid)
  do k = 1, 50
    do i = 1, 40
      grid(i, k) = weight(i, k)
    end do
  end do
  print '(a,i12)', 'grid ', sum(grid)
contains
  integer function weight(i, k)
    !$omp declare target
    integer, intent(in) :: i, k
    weight = i * i - 3 * k
  end function
end program
