#include "interposer/memory/page_faults.hpp"

#include "schema/base/own_environment.hpp"

#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vgpu::interposer {

namespace {

constexpr std::uint64_t one_page = 4096;
/// Is UFFDIO_CONTINUE_MODE_WP, which headers before Linux 6.4 do not have.
constexpr std::uint64_t continue_protected = 1 << 1;
/// Is MADV_DONTNEED_LOCKED, which also drops pages that the program has locked
/// (mlockall).
constexpr int drop_also_locked = 24;

/// Opens a descriptor for the faults of the program and of its system calls.
/// The right to it comes from CAP_SYS_PTRACE, from vm.unprivileged_userfaultfd
/// or from the permissions of the device.
unique_fd open_for_kernel() {
  unique_fd fd{static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC))};
  if (fd)
    return fd;
  unique_fd device{::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC)};
  if (!device)
    return fd;
  return unique_fd{::ioctl(device.get(), USERFAULTFD_IOC_NEW, O_CLOEXEC)};
}

/// Opens a descriptor for the faults of the program's own instructions, which
/// needs no right.
unique_fd open_for_program() {
  return unique_fd{static_cast<int>(
      ::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY))};
}

} // namespace

std::optional<page_faults> page_faults::open(fault_service most) {
  for (auto service : {fault_service::kernel, fault_service::program}) {
    if (service > most)
      continue;
    page_faults out{service == fault_service::kernel ? open_for_kernel()
                                                     : open_for_program(),
                    service};
    if (out.fd_ && out.agree() && out.can_protect())
      return out;
  }
  return std::nullopt;
}

/// Agrees with the kernel on what is used here.
bool page_faults::agree() noexcept {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_MINOR_SHMEM |
                 UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
  return ::ioctl(fd_.get(), UFFDIO_API, &api) == 0;
}

/// Tells whether the kernel can open a page for reading alone, which kernels
/// before 6.4 cannot. It tries a page, because no feature stands for it.
bool page_faults::can_protect() noexcept {
  auto* memory = ::mmap(nullptr, one_page, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  mapping held{memory, one_page};
  *static_cast<volatile char*>(memory) = 1;
  auto at = reinterpret_cast<device_address>(memory);
  return watch(at, one_page) && close(at, one_page) &&
         open(at, one_page, false);
}

bool page_faults::watch(device_address at, std::uint64_t bytes) noexcept {
  uffdio_register what{};
  what.range = {at, bytes};
  what.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR |
              UFFDIO_REGISTER_MODE_WP;
  return ::ioctl(fd_.get(), UFFDIO_REGISTER, &what) == 0;
}

bool page_faults::close(device_address at, std::uint64_t bytes) noexcept {
  return ::madvise(reinterpret_cast<void*>(at), bytes, drop_also_locked) == 0;
}

bool page_faults::open(device_address at, std::uint64_t bytes,
                       bool for_writes) noexcept {
  for (std::uint64_t done = 0; done < bytes;) {
    uffdio_continue what{};
    what.range = {at + done, bytes - done};
    what.mode =
        UFFDIO_CONTINUE_MODE_DONTWAKE | (for_writes ? 0 : continue_protected);
    auto failed = ::ioctl(fd_.get(), UFFDIO_CONTINUE, &what) != 0;
    if (what.mapped > 0)
      done += static_cast<std::uint64_t>(what.mapped);
    else if (failed && errno == EEXIST)
      done += one_page; // It is open.
    else if (failed && errno != EAGAIN)
      return false;
  }
  if (for_writes) {
    // Some of the pages may have been open for reading.
    uffdio_writeprotect what{};
    what.range = {at, bytes};
    what.mode = 0;
    while (::ioctl(fd_.get(), UFFDIO_WRITEPROTECT, &what) != 0)
      if (errno != EAGAIN)
        return false;
  }
  wake(at, bytes);
  return true;
}

void page_faults::wake(device_address at, std::uint64_t bytes) noexcept {
  uffdio_range what{at, bytes};
  ::ioctl(fd_.get(), UFFDIO_WAKE, &what);
}

std::optional<page_faults::touch> page_faults::next() noexcept {
  for (;;) {
    uffd_msg message{};
    auto n = ::read(fd_.get(), &message, sizeof(message));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (n != ssize_t{sizeof(message)})
      return std::nullopt;
    if (message.event != UFFD_EVENT_PAGEFAULT)
      continue;
    auto fault = message.arg.pagefault;
    constexpr auto writing = UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP;
    return touch{fault.address, (fault.flags & writing) != 0};
  }
}

fault_service permitted_fault_service() noexcept {
  const auto* text = setting("VGPU_MANAGED_FAULTS");
  std::string_view name{text == nullptr ? "" : text};
  if (name == "signal")
    return fault_service::signal;
  return name == "program" ? fault_service::program : fault_service::kernel;
}

} // namespace vgpu::interposer
