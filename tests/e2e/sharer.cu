// nvcc: -lcuda
// Two processes that share memory. `sharer PIPE` prints each step, and waits
// for a line from a pipe after it. `sharer NODE NODE` runs the two on these
// nodes, and prints the result of opening the memory. `sharer` ends the process
// that allocated the memory while the other still has it.
#include "../cuda/sharing/two_processes.hpp"

#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr size_t bytes = 64 << 20;
constexpr int times = 200;
constexpr auto flags = cudaIpcMemLazyEnablePeerAccess;

/// Holds the 64 bytes of a handle, some of which a test may change.
using handle = cudaIpcMemHandle_t;

handle handle_of(void* x) {
  handle out;
  CHECK(cudaIpcGetMemHandle(&out, x));
  return out;
}

size_t free_bytes() {
  size_t free = 0, all = 0;
  CHECK(cudaMemGetInfo(&free, &all));
  return free;
}

size_t all_bytes() {
  size_t free = 0, all = 0;
  CHECK(cudaMemGetInfo(&free, &all));
  return all;
}

int exported(CUmemGenericAllocationHandle what) {
  int out = -1;
  CHECK(cuMemExportToShareableHandle(
      &out, what, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  return out;
}

CUresult import_from(int file, CUmemGenericAllocationHandle& out) {
  return cuMemImportFromShareableHandle(
      &out, reinterpret_cast<void*>(static_cast<intptr_t>(file)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

CUmemGenericAllocationHandle imported(int file) {
  CUmemGenericAllocationHandle out;
  CHECK(import_from(file, out));
  return out;
}

/// Returns a descriptor of memory that this process has released.
int descriptor() {
  CUmemAllocationProp what = {};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  what.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemCreate(&memory, bytes, &what, 0));
  auto out = exported(memory);
  CHECK(cuMemRelease(memory));
  return out;
}

const char* outcome_of_opening(const handle& x) {
  void* at = nullptr;
  auto code = cudaIpcOpenMemHandle(&at, x, flags);
  if (code == cudaSuccess)
    CHECK(cudaIpcCloseMemHandle(at));
  (void)cudaGetLastError();
  return cudaGetErrorName(code);
}

void lend(line other, std::ifstream& orders) {
  auto step = [&](const char* done) {
    std::printf("%s\n", done);
    std::fflush(stdout);
    std::string go_on;
    EXPECT(static_cast<bool>(std::getline(orders, go_on)));
  };
  void *large = nullptr, *freed = nullptr;
  CHECK(cudaMalloc(&large, bytes));
  CHECK(cudaMemset(large, 7, bytes));
  other.send(handle_of(large));
  other.meet();
  step("shared");

  CHECK(cudaMalloc(&freed, bytes));
  auto stale = handle_of(freed);
  CHECK(cudaFree(freed));
  other.send(stale);
  CHECK(cudaMalloc(&freed, bytes)); // perhaps at the same address
  other.meet();
  std::printf("own %s\n", outcome_of_opening(handle_of(freed)));
  CHECK(cudaFree(freed));
  step("refused");

  // Opening and closing repeatedly must leak nothing.
  for (int i = 0; i < times; ++i) {
    CHECK(cudaMalloc(&freed, 3 << 20));
    other.send(handle_of(freed));
    other.meet();
    CHECK(cudaFree(freed));
  }
  step("cycled");

  // The lending process frees the memory first.
  CHECK(cudaFree(large));
  CHECK(cudaDeviceSynchronize());
  other.meet();
  EXPECT(free_bytes() == all_bytes() - bytes); // The other one still has it.
  void* none = nullptr;
  EXPECT(cudaMalloc(&none, all_bytes()) == cudaErrorMemoryAllocation);
  (void)cudaGetLastError();
  step("freed");
  other.meet();
  other.meet();
  EXPECT(free_bytes() == all_bytes());
  step("closed");

  // Memory that only the other process has still counts here.
  auto file = descriptor();
  other.send_file(file);
  CHECK(cudaDeviceSynchronize());
  EXPECT(::close(file) == 0);
  other.meet();
  EXPECT(free_bytes() <= all_bytes() - bytes);
  step("handed");
  other.meet();
  other.meet();
  EXPECT(free_bytes() == all_bytes());
  CHECK(cudaDeviceSynchronize());
  step("returned");
}

void borrow(line other) {
  void* large = nullptr;
  CHECK(cudaIpcOpenMemHandle(&large, other.receive<handle>(), flags));
  std::vector<unsigned char> h(bytes);
  CHECK(cudaMemcpy(h.data(), large, bytes, cudaMemcpyDefault));
  EXPECT(h.front() == 7 && h.back() == 7);
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total));
  EXPECT(free == total); // The memory counts where it was allocated.
  other.meet();

  auto stale = other.receive<handle>();
  other.meet();
  std::printf("stale %s\n", outcome_of_opening(stale));
  for (size_t i = 0; i < sizeof(handle); i += 4) {
    auto forged = stale;
    forged.reserved[i] = static_cast<char>(forged.reserved[i] ^ 0x10);
    std::printf("forged %zu %s\n", i, outcome_of_opening(forged));
  }
  std::fflush(stdout);

  for (int i = 0; i < times; ++i) {
    void* x = nullptr;
    CHECK(cudaIpcOpenMemHandle(&x, other.receive<handle>(), flags));
    CHECK(cudaMemset(x, i, 3 << 20));
    CHECK(cudaIpcCloseMemHandle(x));
    other.meet();
  }

  other.meet();
  CHECK(
      cudaMemset(large, 8, bytes)); // The other one does not have it any more.
  other.meet();
  CHECK(cudaIpcCloseMemHandle(large));
  CHECK(cudaDeviceSynchronize());
  other.meet();

  auto file = other.receive_file();
  auto memory = imported(file);
  EXPECT(::close(file) == 0);
  // Imported memory can be exported again.
  file = exported(memory);
  CHECK(cuMemRelease(memory));
  memory = imported(file);
  EXPECT(::close(file) == 0);
  other.meet();
  other.meet();
  EXPECT(free_bytes() == all_bytes());
  CHECK(cuMemRelease(memory));
  CHECK(cudaDeviceSynchronize());
  other.meet();
}

bool share_and_leave() {
  auto heir = [](line other) {
    void* left = nullptr;
    CHECK(cudaIpcOpenMemHandle(&left, other.receive<handle>(), flags));
    EXPECT(free_bytes() == all_bytes());
    other.meet();
    other.wait_for_end();
    // The other process's worker ends a little later.
    auto until = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (free_bytes() == all_bytes() &&
           std::chrono::steady_clock::now() < until) {
    }
    EXPECT(free_bytes() == all_bytes() - bytes);
    void* more = nullptr;
    EXPECT(cudaMalloc(&more, all_bytes() - bytes + 1) ==
           cudaErrorMemoryAllocation);
    (void)cudaGetLastError();
    CHECK(cudaIpcCloseMemHandle(left));
    CHECK(cudaMalloc(&more, all_bytes()));
    CHECK(cudaFree(more));
  };
  return run_two(heir, [](line other) {
    void* x = nullptr;
    CHECK(cudaMalloc(&x, bytes));
    other.send(handle_of(x));
    other.meet();
    _exit(0);
  });
}

bool share_from_to(const char* here, const char* there) {
  return run_two(
      [here](line other) {
        setenv("VGPU_NODE", here, 1);
        void* x = nullptr;
        CHECK(cudaMalloc(&x, 4096));
        other.send(handle_of(x));
        cudaEvent_t event;
        CHECK(cudaEventCreateWithFlags(&event, cudaEventInterprocess |
                                                   cudaEventDisableTiming));
        cudaIpcEventHandle_t name;
        CHECK(cudaIpcGetEventHandle(&name, event));
        other.send(name);
        other.send_file(descriptor());
        other.meet();
      },
      [there](line other) {
        setenv("VGPU_NODE", there, 1);
        auto memory = other.receive<handle>();
        auto name = other.receive<cudaIpcEventHandle_t>();
        std::printf("memory %s\n", outcome_of_opening(memory));
        cudaEvent_t event;
        std::printf("event %s\n",
                    cudaGetErrorName(cudaIpcOpenEventHandle(&event, name)));
        (void)cudaGetLastError();
        CUmemGenericAllocationHandle placed;
        std::printf("descriptor %s\n",
                    error_name(import_from(other.receive_file(), placed)));
        other.meet();
      });
}

} // namespace

int main(int count, char** arguments) {
  if (count == 3)
    return share_from_to(arguments[1], arguments[2]) ? 0 : 1;
  if (count == 1)
    return share_and_leave() ? 0 : 1;
  EXPECT(count == 2);
  std::ifstream orders{arguments[1]};
  EXPECT(orders.good());
  if (!run_two([&](line other) { lend(other, orders); }, borrow))
    return 1;
  std::printf("ok\n");
}
