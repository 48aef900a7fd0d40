/* Makes the calls of monitors and PyTorch to libnvidia-ml.so.1, by dlopen and
   dlsym as C programs do, with its own declarations. Run it on a vGPU:

     nvml_probe DEVICES BYTES

   The arguments are the number of devices and the memory of each. It exits with
   0 if every answer is right. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(what)                                                           \
  do {                                                                         \
    if (!(what)) {                                                             \
      printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                \
      fflush(stdout);                                                          \
      _exit(1);                                                                \
    }                                                                          \
  } while (0)

enum {
  SUCCESS = 0,
  UNINITIALIZED = 1,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7,
  VERSION_MISMATCH = 25
};

typedef void* device;
typedef struct {
  unsigned long long total, free, used;
} memory;
typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} memory_v2;
typedef struct {
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
} pci_info;
typedef struct {
  unsigned pid;
  unsigned long long used;
} process_v1;
typedef struct {
  unsigned pid;
  unsigned long long used;
  unsigned gpu, compute;
} process_v3;

typedef struct {
  unsigned gpu, memory;
} utilization;
typedef struct {
  unsigned pid;
  unsigned long long at;
  unsigned sm, memory, encoder, decoder;
} process_utilization;

static void* nvml;
static void* cuda;

static void* find(void* in, const char* name) {
  void* out = dlsym(in, name);
  if (out == NULL) {
    printf("no %s\n", name);
    exit(1);
  }
  return out;
}
/* Calls a function by name, and gives its result. */
#define NVML(name, types, ...)                                                 \
  (((int(*) types)(size_t)find(nvml, #name))(__VA_ARGS__))
#define CUDA(name, types, ...)                                                 \
  (((int(*) types)(size_t)find(cuda, #name))(__VA_ARGS__))

static device by_index(unsigned i) {
  device out = NULL;
  EXPECT(NVML(nvmlDeviceGetHandleByIndex_v2, (unsigned, device*), i, &out) ==
         SUCCESS);
  return out;
}

static void ask_the_system(void) {
  char text[96];
  int version = 0;
  EXPECT(NVML(nvmlSystemGetDriverVersion, (char*, unsigned), text,
              sizeof text) == SUCCESS);
  EXPECT(atoi(text) >= 550);
  EXPECT(NVML(nvmlSystemGetDriverVersion, (char*, unsigned), text, 3) ==
         INSUFFICIENT_SIZE);
  EXPECT(NVML(nvmlSystemGetNVMLVersion, (char*, unsigned), text, sizeof text) ==
         SUCCESS);
  EXPECT(NVML(nvmlSystemGetCudaDriverVersion_v2, (int*), &version) == SUCCESS);
  int of_driver = 0;
  EXPECT(CUDA(cuDriverGetVersion, (int*), &of_driver) == 0);
  EXPECT(version == of_driver);
}

static void ask_a_device(unsigned index, unsigned long long bytes) {
  device it = by_index(index), other = NULL;
  char name[96], uuid[96];
  unsigned number = 99;
  EXPECT(NVML(nvmlDeviceGetIndex, (device, unsigned*), it, &number) == SUCCESS);
  EXPECT(number == index);
  EXPECT(NVML(nvmlDeviceGetName, (device, char*, unsigned), it, name,
              sizeof name) == SUCCESS);
  EXPECT(strlen(name) > 0);
  EXPECT(NVML(nvmlDeviceGetUUID, (device, char*, unsigned), it, uuid,
              sizeof uuid) == SUCCESS);
  EXPECT(strlen(uuid) == 40 && strncmp(uuid, "GPU-", 4) == 0);
  EXPECT(NVML(nvmlDeviceGetHandleByUUID, (const char*, device*), uuid,
              &other) == SUCCESS);
  EXPECT(other == it);

  pci_info pci;
  EXPECT(NVML(nvmlDeviceGetPciInfo_v3, (device, pci_info*), it, &pci) ==
         SUCCESS);
  other = NULL;
  EXPECT(NVML(nvmlDeviceGetHandleByPciBusId_v2, (const char*, device*), pci.id,
              &other) == SUCCESS);
  EXPECT(other == it);
  other = NULL;
  EXPECT(NVML(nvmlDeviceGetHandleByPciBusId_v2, (const char*, device*),
              pci.legacy_id, &other) == SUCCESS);
  EXPECT(other == it);

  memory m;
  EXPECT(NVML(nvmlDeviceGetMemoryInfo, (device, memory*), it, &m) == SUCCESS);
  EXPECT(m.total == bytes && m.used == 0 && m.free == bytes);
  memory_v2 m2;
  memset(&m2, 0, sizeof m2);
  EXPECT(NVML(nvmlDeviceGetMemoryInfo_v2, (device, memory_v2*), it, &m2) ==
         VERSION_MISMATCH);
  m2.version = (unsigned)sizeof m2 | 2u << 24;
  EXPECT(NVML(nvmlDeviceGetMemoryInfo_v2, (device, memory_v2*), it, &m2) ==
         SUCCESS);
  EXPECT(m2.total == bytes && m2.free == bytes && m2.used == 0);

  for (unsigned of = 0; of < 6; ++of) {
    number = 99;
    EXPECT(NVML(nvmlDeviceGetP2PStatus, (device, device, unsigned, unsigned*),
                it, it, of, &number) == (of < 5 ? SUCCESS : INVALID_ARGUMENT));
    EXPECT(number == (of < 5 ? 0 : 99));
  }
  EXPECT(NVML(nvmlDeviceGetTemperature, (device, int, unsigned*), it, 0,
              &number) == NOT_SUPPORTED);
  EXPECT(NVML(nvmlDeviceGetPowerUsage, (device, unsigned*), it, &number) ==
         NOT_SUPPORTED);
  utilization busy = {101, 101};
  EXPECT(NVML(nvmlDeviceGetUtilizationRates, (device, utilization*), it,
              &busy) == SUCCESS);
  EXPECT(busy.gpu == 0 && busy.memory == 0);
}

/* Peers must have the driver's answer: they can only be read. */
static void ask_peers(unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    for (unsigned k = 0; k < count; ++k) {
      unsigned status = 99;
      int reaches = -1;
      EXPECT(NVML(nvmlDeviceGetP2PStatus, (device, device, unsigned, unsigned*),
                  by_index(i), by_index(k), 0, &status) == SUCCESS);
      EXPECT(CUDA(cuDeviceCanAccessPeer, (int*, int, int), &reaches, (int)i,
                  (int)k) == 0);
      EXPECT(status == (i == k || reaches != 0 ? 0 : 5));
    }
}

static void ask_wrongly(void) {
  device none = NULL;
  memory m;
  EXPECT(NVML(nvmlDeviceGetHandleByIndex_v2, (unsigned, device*), 99, &none) ==
         INVALID_ARGUMENT);
  EXPECT(NVML(nvmlDeviceGetHandleByUUID, (const char*, device*), "GPU-nothing",
              &none) == NOT_FOUND);
  EXPECT(NVML(nvmlDeviceGetHandleByPciBusId_v2, (const char*, device*), "words",
              &none) == INVALID_ARGUMENT);
  EXPECT(NVML(nvmlDeviceGetHandleByPciBusId_v2, (const char*, device*),
              "00000000:EE:1F.0", &none) == NOT_FOUND);
  EXPECT(NVML(nvmlDeviceGetMemoryInfo, (device, memory*), NULL, &m) ==
         INVALID_ARGUMENT);
  EXPECT(NVML(nvmlDeviceGetMemoryInfo, (device, memory*), by_index(0), NULL) ==
         INVALID_ARGUMENT);
  EXPECT(dlsym(nvml, "nvmlNoSuchThing") == NULL);
  EXPECT(dlsym(nvml, "cuInit") == NULL ||
         dlsym(nvml, "cuInit") == dlsym(cuda, "cuInit"));
}

/* Constant properties must equal the driver's attributes. */
static void ask_of_what_stays(int index) {
  device it = by_index((unsigned)index);
  int multiprocessors = 0, core = 0, memory_clock = 0, width = 0;
  unsigned number = 0;
  EXPECT(CUDA(cuDeviceGetAttribute, (int*, int, int), &multiprocessors, 16,
              index) == 0);
  EXPECT(CUDA(cuDeviceGetAttribute, (int*, int, int), &core, 13, index) == 0);
  EXPECT(CUDA(cuDeviceGetAttribute, (int*, int, int), &memory_clock, 36,
              index) == 0);
  EXPECT(CUDA(cuDeviceGetAttribute, (int*, int, int), &width, 37, index) == 0);
  EXPECT(NVML(nvmlDeviceGetMaxClockInfo, (device, int, unsigned*), it, 1,
              &number) == SUCCESS);
  EXPECT(number == (unsigned)core / 1000);
  EXPECT(NVML(nvmlDeviceGetMaxClockInfo, (device, int, unsigned*), it, 2,
              &number) == SUCCESS);
  EXPECT(number == (unsigned)memory_clock / 1000);
  EXPECT(NVML(nvmlDeviceGetMaxClockInfo, (device, int, unsigned*), it, 3,
              &number) == NOT_SUPPORTED);
  EXPECT(NVML(nvmlDeviceGetMaxClockInfo, (device, int, unsigned*), it, 9,
              &number) == INVALID_ARGUMENT);
  EXPECT(NVML(nvmlDeviceGetMemoryBusWidth, (device, unsigned*), it, &number) ==
         SUCCESS);
  EXPECT(number == (unsigned)width);
  EXPECT(NVML(nvmlDeviceGetNumGpuCores, (device, unsigned*), it, &number) ==
         SUCCESS);
  EXPECT(number == 128 * (unsigned)multiprocessors);
}

/* NVML must agree with the driver about a device and its used memory. */
static void ask_both(unsigned count) {
  EXPECT(CUDA(cuInit, (unsigned), 0) == 0);
  for (unsigned i = 0; i < count; ++i) {
    unsigned char raw[16];
    char uuid[96], expected[41] = "GPU-";
    EXPECT(CUDA(cuDeviceGetUuid_v2, (unsigned char*, int), raw, (int)i) == 0);
    for (int k = 0, at = 4; k < 16; ++k) {
      if (k == 4 || k == 6 || k == 8 || k == 10)
        expected[at++] = '-';
      at += snprintf(expected + at, 3, "%02x", raw[k]);
    }
    EXPECT(NVML(nvmlDeviceGetUUID, (device, char*, unsigned), by_index(i), uuid,
                sizeof uuid) == SUCCESS);
    EXPECT(strcmp(uuid, expected) == 0);
    ask_of_what_stays((int)i);
  }
  ask_peers(count);
  void* context = NULL;
  unsigned long long at = 0;
  size_t total = 0;
  EXPECT(CUDA(cuDevicePrimaryCtxRetain, (void**, int), &context, 0) == 0);
  EXPECT(CUDA(cuCtxSetCurrent, (void*), context) == 0);
  EXPECT(CUDA(cuDeviceTotalMem_v2, (size_t*, int), &total, 0) == 0);
  EXPECT(CUDA(cuMemAlloc_v2, (unsigned long long*, size_t), &at, 1 << 20) == 0);
  /* Memory counts in granules of 2 MiB. */
  const unsigned long long used = 2 << 20;
  memory m;
  EXPECT(NVML(nvmlDeviceGetMemoryInfo, (device, memory*), by_index(0), &m) ==
         SUCCESS);
  EXPECT(m.total == total && m.used == used);
  EXPECT(m.free == m.total - m.used);

  process_v1 old[4];
  process_v3 now[4];
  unsigned room = 0;
  EXPECT(NVML(nvmlDeviceGetComputeRunningProcesses,
              (device, unsigned*, process_v1*), by_index(0), &room,
              NULL) == INSUFFICIENT_SIZE);
  EXPECT(room == 1);
  room = 4;
  EXPECT(NVML(nvmlDeviceGetComputeRunningProcesses,
              (device, unsigned*, process_v1*), by_index(0), &room,
              old) == SUCCESS);
  EXPECT(room == 1 && old[0].pid == (unsigned)getpid());
  EXPECT(old[0].used == used);
  room = 4;
  EXPECT(NVML(nvmlDeviceGetComputeRunningProcesses_v3,
              (device, unsigned*, process_v3*), by_index(0), &room,
              now) == SUCCESS);
  EXPECT(room == 1 && now[0].used == used && now[0].gpu == 0xffffffff);
  /* nvtop first passes no buffer to learn the size that it needs. */
  process_utilization busy[4];
  room = 0;
  EXPECT(NVML(nvmlDeviceGetProcessUtilization,
              (device, process_utilization*, unsigned*, unsigned long long),
              by_index(0), NULL, &room, 0ULL) == INSUFFICIENT_SIZE);
  EXPECT(room == 1);
  EXPECT(NVML(nvmlDeviceGetProcessUtilization,
              (device, process_utilization*, unsigned*, unsigned long long),
              by_index(0), busy, &room, 0ULL) == SUCCESS);
  EXPECT(room == 1 && busy[0].pid == (unsigned)getpid());
  EXPECT(busy[0].sm <= 100 && busy[0].at > 1700000000000000ULL);
  room = 4;
  EXPECT(NVML(nvmlDeviceGetGraphicsRunningProcesses_v3,
              (device, unsigned*, process_v3*), by_index(0), &room,
              now) == SUCCESS);
  EXPECT(room == 0);
}

/* After a process has only counted devices its children can use them, and
   CUDA_VISIBLE_DEVICES is read when the driver is initialised. */
static void use_in_a_child(unsigned count) {
  pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    int seen = 0;
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    EXPECT(CUDA(cuInit, (unsigned), 0) == 0);
    EXPECT(CUDA(cuDeviceGetCount, (int*), &seen) == 0);
    EXPECT(seen == 1);
    unsigned all = 0;
    EXPECT(NVML(nvmlDeviceGetCount_v2, (unsigned*), &all) == SUCCESS);
    EXPECT(all == count);
    void* context = NULL;
    unsigned long long at = 0;
    EXPECT(CUDA(cuDevicePrimaryCtxRetain, (void**, int), &context, 0) == 0);
    EXPECT(CUDA(cuCtxSetCurrent, (void*), context) == 0);
    EXPECT(CUDA(cuMemAlloc_v2, (unsigned long long*, size_t), &at, 4096) == 0);
    EXPECT(CUDA(cuMemsetD8_v2, (unsigned long long, unsigned char, size_t), at,
                1, 4096) == 0);
    EXPECT(CUDA(cuCtxSynchronize, (void)) == 0);
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: nvml_probe DEVICES BYTES\n");
    return 2;
  }
  unsigned devices = (unsigned)atoi(argv[1]), count = 0;
  unsigned long long bytes = strtoull(argv[2], NULL, 10);
  nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  cuda = dlopen("libcuda.so.1", RTLD_NOW);
  if (nvml == NULL || cuda == NULL) {
    printf("%s\n", dlerror());
    return 1;
  }
  EXPECT(NVML(nvmlDeviceGetCount_v2, (unsigned*), &count) == UNINITIALIZED);
  EXPECT(NVML(nvmlShutdown, (void)) == UNINITIALIZED);
  EXPECT(NVML(nvmlInit_v2, (void)) == SUCCESS);
  EXPECT(NVML(nvmlInit_v2, (void)) == SUCCESS);
  EXPECT(NVML(nvmlShutdown, (void)) == SUCCESS);
  EXPECT(NVML(nvmlDeviceGetCount_v2, (unsigned*), &count) == SUCCESS);
  EXPECT(count == devices);
  const char* (*describe)(int) =
      (const char* (*)(int))(size_t)find(nvml, "nvmlErrorString");
  EXPECT(strcmp(describe(SUCCESS), "Success") == 0);
  EXPECT(strcmp(describe(12345), "Unknown Error") == 0);

  /* None of these calls initialises the driver. */
  int seen = 0;
  ask_the_system();
  for (unsigned i = 0; i < count; ++i)
    ask_a_device(i, bytes);
  ask_wrongly();
  EXPECT(CUDA(cuDeviceGetCount, (int*), &seen) == 3);
  use_in_a_child(count);
  ask_both(count);
  EXPECT(NVML(nvmlShutdown, (void)) == SUCCESS);
  EXPECT(NVML(nvmlDeviceGetCount_v2, (unsigned*), &count) == UNINITIALIZED);
  puts("ok");
  return 0;
}
