// Shared memory of two processes that both register: kernels and hosts of both
// see each other's writes while kernels run.
#include "../sharing/two_processes.hpp"

#include <fcntl.h>
#include <string>
#include <sys/mman.h>

constexpr std::size_t page = 4096;
constexpr std::size_t bytes = 5 * page + 200; // not a multiple of a page
constexpr std::size_t from = page + 64;       // not at a page boundary
constexpr int many = 64 * 128;                // threads that count

struct board {
  unsigned count;    // sum over all threads of both kernels
  unsigned asked;    // a host's question to a kernel
  unsigned answered; // the kernel's answer
  unsigned words[1000];
};

__global__ void count(board* x) {
  atomicAdd_system(&x->count, 1u);
}

__global__ void put(board* x, unsigned first) {
  for (unsigned i = 2 * threadIdx.x + first; i < 1000; i += 2 * blockDim.x)
    x->words[i] = 3 * i + first;
}

// The kernel only reads the question: over PCIe an atomic operation of a GPU is
// none for the host, and could write the word's former value over the question.
__global__ void answer(board* x) {
  auto* asked = static_cast<volatile unsigned*>(&x->asked);
  while (*asked == 0)
    __nanosleep(1000);
  *static_cast<volatile unsigned*>(&x->answered) = *asked + 1;
  __threadfence_system();
}

unsigned seen(unsigned& x) {
  return __atomic_load_n(&x, __ATOMIC_SEQ_CST);
}

struct shared_file {
  std::string name;
  char* memory = nullptr;
  board* host = nullptr;
  board* device = nullptr;

  explicit shared_file(const std::string& called, bool make) : name{called} {
    int fd =
        shm_open(name.c_str(), O_RDWR | (make ? O_CREAT | O_EXCL : 0), 0600);
    EXPECT(fd >= 0);
    EXPECT(!make || ftruncate(fd, from + bytes) == 0);
    void* at =
        mmap(nullptr, from + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT(at != MAP_FAILED);
    close(fd);
    memory = static_cast<char*>(at);
    CHECK(cudaHostRegister(memory + from, bytes,
                           cudaHostRegisterPortable | cudaHostRegisterMapped));
    host = reinterpret_cast<board*>(memory + from);
    CHECK(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device), host, 0));
    // Registers it again, and queries another address in it.
    char* later = nullptr;
    CHECK(cudaHostGetDevicePointer(reinterpret_cast<void**>(&later),
                                   memory + from + page + 8, 0));
    EXPECT(later == reinterpret_cast<char*>(device) + page + 8);
  }

  void end() {
    CHECK(cudaHostUnregister(memory + from));
    EXPECT(cudaHostUnregister(memory + from) ==
           cudaErrorHostMemoryNotRegistered);
    EXPECT(cudaGetLastError() == cudaErrorHostMemoryNotRegistered);
    // Now only the hosts use it.
    host->words[0] = 17;
    EXPECT(munmap(memory, from + bytes) == 0);
  }
};

/// Does the work of one process, on every other word.
void work(const line& other, shared_file& x, unsigned mine) {
  other.meet();
  count<<<64, 128>>>(x.device);
  put<<<1, 32>>>(x.device, mine);
  CHECK(cudaDeviceSynchronize());
  other.meet();
  EXPECT(seen(x.host->count) == 2 * many);
  for (unsigned i = 0; i < 1000; ++i)
    EXPECT(x.host->words[i] == 3 * i + i % 2);
  // Copies work with either address.
  board got{};
  CHECK(cudaMemcpy(&got, x.device, sizeof(got), cudaMemcpyDefault));
  EXPECT(got.count == 2 * many && got.words[999] == 2998);
  CHECK(cudaMemcpy(&got, x.host, sizeof(got), cudaMemcpyDefault));
  EXPECT(got.count == 2 * many && got.words[998] == 2994);
  other.meet();
}

std::string name; // exists until both have mapped the file

int main() {
  name = "/vgpu_shared_files_" + std::to_string(getpid());
  std::atexit([] { shm_unlink(name.c_str()); });
  const auto good = run_two(
      [&](const line& other) {
        shared_file x{name, true};
        other.send('m');
        EXPECT(other.receive<char>() == 'o');
        shm_unlink(name.c_str()); // like NCCL; the mappings keep the file
        work(other, x, 0);
        // The other process's host asks this kernel, which runs already.
        answer<<<1, 1>>>(x.device);
        other.send('r');
        CHECK(cudaDeviceSynchronize());
        other.wait_for_end();
        EXPECT(seen(x.host->answered) == 6);
        x.end();
      },
      [&](const line& other) {
        EXPECT(other.receive<char>() == 'm');
        shared_file x{name, false};
        other.send('o');
        work(other, x, 1);
        EXPECT(other.receive<char>() == 'r');
        __atomic_store_n(&x.host->asked, 5u, __ATOMIC_SEQ_CST);
        while (seen(x.host->answered) != 6) // written by the other's GPU
          ;
        x.end();
      });
  EXPECT(good);
  std::puts("ok");
}
