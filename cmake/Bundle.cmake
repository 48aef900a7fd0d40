# Makes the portable bundle: cmake -DBUILD=... -DSOURCE=... -P Bundle.cmake
#
#   bin/        the programs; they look for libraries in ../lib/host alone
#   lib/        libcuda.so.1, libnvidia-ml.so.1 and libcupti.so, what programs
#               load instead of NVIDIA's
#   lib/smi/    nvidia-smi, which asks them
#   lib/host/   what our programs need, but glibc and NVIDIA's driver
#   lib/guest/  what libcuda.so.1 needs. Not libstdc++: a program's own is
#               newer than ours, or it could not be loaded beside it.
cmake_minimum_required(VERSION 3.25)

set(programs vgpu vgpu-manager vgpu-node vgpu-worker vgpu-client)
set(stage ${BUILD}/bundle/vgpu)
set(archive ${BUILD}/vgpu-bundle.tar.xz)
set(largest_mib 40)

file(REMOVE_RECURSE ${stage})
file(MAKE_DIRECTORY ${stage}/bin ${stage}/lib/host ${stage}/lib/guest
  ${stage}/licenses)

set(glibc "^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl)\\.so\\..*)$")
function(copy_needed kind file_list to except)
  file(GET_RUNTIME_DEPENDENCIES ${kind} ${file_list}
    RESOLVED_DEPENDENCIES_VAR found
    PRE_EXCLUDE_REGEXES ${glibc} ${except})
  foreach(library IN LISTS found)
    get_filename_component(name ${library} NAME)
    get_filename_component(real ${library} REALPATH)
    file(COPY_FILE ${real} ${to}/${name})
    # As Debian says whose it is.
    execute_process(COMMAND dpkg-query -S ${real} OUTPUT_VARIABLE owner
      ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX REPLACE ":.*" "" owner "${owner}")
    if(EXISTS /usr/share/doc/${owner}/copyright)
      file(COPY_FILE /usr/share/doc/${owner}/copyright
        ${stage}/licenses/${owner})
    endif()
  endforeach()
endfunction()

set(executables)
foreach(name IN LISTS programs)
  file(COPY ${BUILD}/bin/${name} DESTINATION ${stage}/bin)
  list(APPEND executables ${BUILD}/bin/${name})
endforeach()
foreach(name libcuda.so.1 libnvidia-ml.so.1 libcupti.so.12 libcupti.so.13)
  file(COPY_FILE ${BUILD}/lib/${name} ${stage}/lib/${name})
endforeach()
file(COPY ${BUILD}/lib/smi/nvidia-smi DESTINATION ${stage}/lib/smi)
file(COPY ${SOURCE}/README.md ${SOURCE}/LICENSE ${SOURCE}/SECURITY.md
  ${SOURCE}/CHANGELOG.md ${SOURCE}/docs DESTINATION ${stage})
copy_needed(EXECUTABLES "${executables}" ${stage}/lib/host "^$")
copy_needed(LIBRARIES ${BUILD}/lib/libcuda.so.1 ${stage}/lib/guest
  "^lib(stdc\\+\\+|gcc_s)\\.so.*")

file(GLOB_RECURSE binaries ${stage}/bin/* ${stage}/lib/*)
execute_process(COMMAND strip --strip-unneeded ${binaries}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -E tar cJf ${archive} vgpu
  WORKING_DIRECTORY ${BUILD}/bundle COMMAND_ERROR_IS_FATAL ANY)

file(SIZE ${archive} bytes)
math(EXPR kib "${bytes} / 1024")
message("${archive}: ${kib} KiB")
math(EXPR limit "${largest_mib} * 1024")
if(kib GREATER limit)
  message(FATAL_ERROR "the bundle is larger than ${largest_mib} MiB")
endif()
