// The beginning and end of the driver in a program, each case in its own
// process.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace vgpu::test;

namespace {

std::string own_manager() {
  auto name = "ipc:///nowhere/life-" + std::to_string(::getpid());
  ::setenv("VGPU_MANAGER", name.c_str(), 1);
  ::setenv("VGPU_JOURNAL", "67108864", 1);
  return name;
}

/// Runs `body` in a child. Returns its exit status, or 1000 + n for signal n.
template <class Body>
int in_child(const Body& body) {
  std::fflush(nullptr);
  auto child = ::fork();
  if (child == 0) {
    own_manager();
    std::exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/// Like in_child(), with the child's output.
template <class Body>
int in_child(const Body& body, std::string& output) {
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  auto status = in_child([&] {
    ::dup2(ends[1], STDOUT_FILENO);
    return body();
  });
  ::close(ends[1]);
  std::vector<char> buffer(4096);
  for (ssize_t n; (n = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    output.append(buffer.data(), static_cast<std::size_t>(n));
  ::close(ends[0]);
  return status;
}

CUcontext start() {
  CUcontext x = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&x, 0) != 0 ||
      cuCtxSetCurrent(x) != CUDA_SUCCESS)
    std::exit(99);
  return x;
}

} // namespace

BOOST_AUTO_TEST_SUITE(life)

BOOST_AUTO_TEST_CASE(calls_before_cuinit_fail) {
  BOOST_TEST(in_child([] {
               int n = 0;
               CUcontext x = nullptr;
               CUdeviceptr p = 0;
               if (cuDeviceGetCount(&n) != CUDA_ERROR_NOT_INITIALIZED)
                 return 1;
               if (cuCtxGetCurrent(&x) != CUDA_ERROR_NOT_INITIALIZED)
                 return 2;
               if (cuMemAlloc(&p, 1) != CUDA_ERROR_NOT_INITIALIZED)
                 return 3;
               CUstream s = nullptr;
               if (cuStreamCreate(&s, 0) != CUDA_ERROR_NOT_INITIALIZED)
                 return 4;
               if (cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr,
                                  nullptr,
                                  nullptr) != CUDA_ERROR_NOT_INITIALIZED)
                 return 5;
               return cuDriverGetVersion(&n) == CUDA_SUCCESS ? 0 : 6;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(a_refused_program_has_no_device) {
  BOOST_TEST(in_child([] {
               fake_client client{std::getenv("VGPU_MANAGER"),
                                  {.refusal = "there is no room"}};
               int n = 0;
               if (cuInit(0) != CUDA_ERROR_NO_DEVICE)
                 return 1;
               return cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED ? 0
                                                                         : 2;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(a_lease_of_too_many_devices_is_refused) {
  // A lease may have 64, but the 64th's window lies where AddressSanitizer has
  // its shadow.
  for (auto [devices, wanted] :
       {std::pair{63, CUDA_SUCCESS}, {65, CUDA_ERROR_NO_DEVICE}})
    BOOST_TEST(in_child([devices = devices, wanted = wanted] {
                 fake_options leases;
                 leases.devices = devices;
                 fake_client client{std::getenv("VGPU_MANAGER"), leases};
                 return cuInit(0) == wanted ? 0 : 1;
               }) == 0);
}

BOOST_AUTO_TEST_CASE(a_program_without_a_client_has_no_device) {
  BOOST_TEST(in_child([] {
               ::setenv("VGPU_CLIENT", "/nowhere/vgpu-client", 1);
               return cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(a_started_client_is_not_the_programs_child) {
  // The client writes its parent and descriptors to a file, and ends.
  auto folder = std::string{"/tmp/vgpu-life-"} + std::to_string(::getpid());
  ::mkdir(folder.c_str(), 0700);
  auto script = folder + "/client";
  auto seen = folder + "/seen";
  std::ofstream{script} << "#!/bin/sh\nps -o ppid= -p $$ > " << seen
                        << "\nls /proc/self/fd | wc -l >> " << seen << "\n";
  ::chmod(script.c_str(), 0700);
  auto status = in_child([&] {
    static std::atomic<int> signals{0};
    ::signal(SIGCHLD, [](int) { signals.fetch_add(1); });
    ::setenv("VGPU_CLIENT", script.c_str(), 1);
    auto code = cuInit(0);
    if (code != CUDA_ERROR_NO_DEVICE)
      return 1;
    if (::waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD)
      return 2;
    std::ifstream file{seen};
    int parent = 0;
    if (!(file >> parent) || parent == ::getpid())
      return 3;
    return signals.load() == 0 ? 0 : 4;
  });
  BOOST_TEST(status == 0);
  for (const auto& path : {seen, script})
    ::unlink(path.c_str());
  ::rmdir(folder.c_str());
}

BOOST_AUTO_TEST_CASE(a_forked_child_has_no_driver) {
  BOOST_TEST(in_child([] {
               fake_client client{std::getenv("VGPU_MANAGER"), {}};
               start();
               CUdeviceptr p = 0;
               if (cuMemAlloc(&p, 100) != CUDA_SUCCESS)
                 return 1;
               auto child = ::fork();
               if (child == 0) {
                 CUdeviceptr q = 0;
                 auto bad = cuMemAlloc(&q, 100) != CUDA_ERROR_NOT_INITIALIZED ||
                            cuInit(0) != CUDA_ERROR_NOT_INITIALIZED ||
                            cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED;
                 ::_exit(bad ? 1 : 0);
               }
               int status = 0;
               ::waitpid(child, &status, 0);
               if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                 return 2;
               if (cuMemsetD8(p, 1, 100) != CUDA_SUCCESS)
                 return 3;
               return cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 4;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(a_programs_exit_status_and_output_are_kept) {
  std::string output;
  auto status = in_child(
      [] {
        auto& client = *new fake_client{std::getenv("VGPU_MANAGER"), {}};
        static_cast<void>(client);
        // The handler is registered before cuInit, so it runs after the
        // driver's end.
        std::atexit([] {
          CUdeviceptr p = 0;
          void* table = nullptr;
          std::printf("%d %d", cuMemAlloc(&p, 100),
                      cuDevicePrimaryCtxRelease(0));
          static_cast<void>(table);
        });
        start();
        std::thread{[] {
          // The driver still works while the program exits.
          CUcontext x = nullptr;
          cuDevicePrimaryCtxRetain(&x, 0);
          cuCtxSetCurrent(x);
          CUdeviceptr p = 0;
          cuMemAlloc(&p, 4096);
          while (cuMemsetD8(p, 1, 4096) == CUDA_SUCCESS)
            cuCtxSynchronize();
        }}.detach();
        return 42;
      },
      output);
  BOOST_TEST(status == 42);
  BOOST_TEST(output == "4 4");
}

BOOST_AUTO_TEST_CASE(a_fault_sticks_to_the_context) {
  BOOST_TEST(in_child([] {
               fake_client client{std::getenv("VGPU_MANAGER"), {}};
               start();
               CUdeviceptr p = 0, q = 0;
               CUevent e = nullptr;
               if (cuMemAlloc(&p, 100) != CUDA_SUCCESS)
                 return 1;
               client.fail_with(CUDA_ERROR_ILLEGAL_ADDRESS);
               if (cuMemsetD8(p, 1, 100) != CUDA_SUCCESS)
                 return 2;
               constexpr auto fault = CUDA_ERROR_ILLEGAL_ADDRESS;
               if (cuCtxSynchronize() != fault || cuCtxSynchronize() != fault)
                 return 3;
               if (cuMemAlloc(&q, 1) != fault || cuMemFree(p) != fault ||
                   cuEventCreate(&e, 0) != fault ||
                   cuStreamQuery(nullptr) != fault ||
                   cuModuleUnload(nullptr) != fault)
                 return 4;
               CUcontext x = nullptr;
               return cuCtxGetCurrent(&x) == CUDA_SUCCESS ? 0 : 5;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(printed_text_appears_at_the_next_synchronisation) {
  std::string output;
  auto status = in_child(
      [] {
        fake_client client{std::getenv("VGPU_MANAGER"), {}};
        start();
        CUdeviceptr p = 0;
        cuMemAlloc(&p, 100);
        std::printf("before ");
        client.print("kernel ");
        cuMemsetD8(p, 1, 100);
        if (cuCtxSynchronize() != CUDA_SUCCESS)
          return 1;
        std::printf("after");
        std::fflush(stdout);
        return 0;
      },
      output);
  BOOST_TEST(status == 0);
  BOOST_TEST(output == "before kernel after");
}

BOOST_AUTO_TEST_CASE(a_client_that_cannot_be_replaced_ends_the_session) {
  BOOST_TEST(in_child([] {
               ::setenv("VGPU_CLIENT", "/nowhere/vgpu-client", 1);
               auto client = std::make_unique<fake_client>(
                   std::getenv("VGPU_MANAGER"), fake_options{});
               start();
               CUdeviceptr p = 0;
               if (cuMemAlloc(&p, 100) != CUDA_SUCCESS)
                 return 1;
               client.reset();
               if (cuCtxSynchronize() != CUDA_ERROR_DEVICE_UNAVAILABLE)
                 return 2;
               return cuMemFree(p) == CUDA_ERROR_DEVICE_UNAVAILABLE ? 0 : 3;
             }) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
