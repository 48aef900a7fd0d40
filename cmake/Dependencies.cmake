# What we build upon; all of it comes from Debian 12's packages and the CUDA
# toolkit. tests/setup.sh installs it.
find_package(Threads REQUIRED)
find_package(CapnProto 0.9.2 REQUIRED)
find_package(cppzmq 4.9 REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS unit_test_framework)
find_package(CLI11 2.1 REQUIRED)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)
find_package(fmt 9 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(benchmark 1.7 REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(toml11 3.7 REQUIRED)

# Debian ships these without CMake packages.
function(vgpu_system_library target header library)
  string(MAKE_C_IDENTIFIER ${target} id)
  find_path(${id}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${id}_LIBRARY ${library} REQUIRED)
  add_library(${target} UNKNOWN IMPORTED)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION "${${id}_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${${id}_INCLUDE_DIR}")
endfunction()
vgpu_system_library(caf::core caf/all.hpp caf_core)
target_link_libraries(caf::core INTERFACE Threads::Threads)
vgpu_system_library(zstd::zstd zstd.h zstd)
vgpu_system_library(lz4::lz4 lz4.h lz4)
vgpu_system_library(xxhash::xxhash xxhash.h xxhash)
vgpu_system_library(sodium::sodium sodium.h sodium)

# Without it, workers have no filter of system calls, and the node says so.
find_library(SECCOMP_LIBRARY seccomp)
find_path(SECCOMP_INCLUDE_DIR seccomp.h)
if(SECCOMP_LIBRARY AND SECCOMP_INCLUDE_DIR)
  vgpu_system_library(seccomp::seccomp seccomp.h seccomp)
else()
  message(WARNING "libseccomp-dev is missing: workers get no system call filter")
endif()

# Of the toolkit we need the headers (cuda.h), nvcc for the examples, and
# nothing to link.
set(CUDA_TOOLKIT_ROOT "" CACHE PATH "Where the CUDA 13 toolkit lies")
find_program(NVCC nvcc HINTS ${CUDA_TOOLKIT_ROOT}/bin /usr/local/cuda/bin
  REQUIRED)
find_path(CUDA_INCLUDE_DIR cuda.h HINTS ${CUDA_TOOLKIT_ROOT}/include
  /usr/local/cuda/include REQUIRED)
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${CUDA_INCLUDE_DIR})
