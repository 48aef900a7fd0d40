// Before and at initialisation: errors, look-ups, devices, forks.
#include "truth_case.hpp"

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace vgpu::test {

namespace {

void before_init_refused(report& out) {
  int count = 0;
  CUcontext context = nullptr;
  CUdeviceptr p = 0;
  out << cuDeviceGetCount(&count) << cuCtxGetCurrent(&context)
      << cuMemAlloc(&p, 16);
}

void before_init_answered(report& out) {
  int version = 0;
  const char* name = nullptr;
  CUstream stream = nullptr;
  out << cuDriverGetVersion(&version)
      << cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &name)
      << cuStreamCreate(&stream, 0);
}

void order(report& out) {
  ::setenv("CUDA_DEVICE_ORDER", "junk", 1);
  out << cuInit(0);
}

void no_order(report& out) {
  ::setenv("CUDA_DEVICE_ORDER", "", 1);
  out << cuInit(0);
}

void init(report& out) {
  out << cuInit(0) << cuInit(1) << cuInit(0);
}

void bad_devices(report& out) {
  require(cuInit(0), "cuInit");
  CUdevice device = 0;
  char name[64];
  out << cuDeviceGet(&device, 99) << cuDeviceGet(&device, -1)
      << cuDeviceGetName(name, 0, 0) << cuDeviceGetName(nullptr, 64, 0);
}

void short_name(report& out) {
  require(cuInit(0), "cuInit");
  char name[256], cut[4];
  require(cuDeviceGetName(name, sizeof name, 0), "cuDeviceGetName");
  out << cuDeviceGetName(cut, sizeof cut, 0);
  out << (cut[3] == 0 && !std::strncmp(name, cut, 3) ? "first 3 letters"
                                                     : "something else");
}

void short_bus_id(report& out) {
  require(cuInit(0), "cuInit");
  char whole[16], cut[16];
  out << cuDeviceGetPCIBusId(whole, 13, 0) << cuDeviceGetPCIBusId(cut, 12, 0);
  out << (!std::strncmp(whole, cut, 11) && cut[11] == 0 ? "cut"
                                                        : "something else");
}

/// Asks for the device with a bus id without parts, and with more.
void bus_ids(report& out) {
  require(cuInit(0), "cuInit");
  char id[16];
  require(cuDeviceGetPCIBusId(id, sizeof id, 0), "cuDeviceGetPCIBusId");
  std::string whole = id;
  CUdevice device = 0;
  for (const auto& text :
       {whole, whole.substr(5), whole.substr(0, 10), whole.substr(5, 5),
        "0000" + whole, " " + whole, whole + " "})
    out << cuDeviceGetByPCIBusId(&device, text.c_str());
}

void texture_widths(report& out) {
  require(cuInit(0), "cuInit");
  size_t large = 0, small = 0, none = 0;
  out << cuDeviceGetTexture1DLinearMaxWidth(&large, CU_AD_FORMAT_FLOAT, 4, 0)
      << cuDeviceGetTexture1DLinearMaxWidth(&small, CU_AD_FORMAT_UNSIGNED_INT8,
                                            1, 0)
      << (small == 4 * large ? "4 times" : "something else")
      << cuDeviceGetTexture1DLinearMaxWidth(&none, CU_AD_FORMAT_UNSIGNED_INT8,
                                            3, 0);
}

void own_peer(report& out) {
  require(cuInit(0), "cuInit");
  unsigned can = 0;
  auto add = CU_ATOMIC_OPERATION_INTEGER_ADD;
  out << cuDeviceGetP2PAtomicCapabilities(&can, &add, 1, 0, 0);
}

void error_texts(report& out) {
  const char* name = "untouched";
  const char* text = nullptr;
  out << "rc" << cuGetErrorName(std::bit_cast<CUresult>(12345), &name) << "ptr"
      << (name ? name : "null");
  if (cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text) == CUDA_SUCCESS)
    out << "'" + std::string(text) + "'";
}

/// Reports how many codes have a name, and FNV-1a over all lines
/// `CODE NAME TEXT`.
void all_error_texts(report& out) {
  constexpr int codes = 10'000;
  auto digest = std::uint64_t{0xcbf29ce484222325};
  auto count = 0;
  for (int code = 0; code < codes; ++code) {
    const char* name = nullptr;
    const char* text = nullptr;
    auto value = std::bit_cast<CUresult>(code);
    if (cuGetErrorName(value, &name) != CUDA_SUCCESS ||
        cuGetErrorString(value, &text) != CUDA_SUCCESS)
      continue;
    ++count;
    for (unsigned char c :
         std::to_string(code) + " " + name + " " + text + "\n")
      digest = (digest ^ c) * 0x100000001b3;
  }
  char line[64];
  std::snprintf(line, sizeof line, "%d texts, digest %016llx", count,
                static_cast<unsigned long long>(digest));
  out << line;
}

void look_ups(report& out) {
  auto look_up = [&](const char* symbol, int version,
                     CUdriverProcAddressQueryResult* status) {
    void* p = nullptr;
    out << cuGetProcAddress(symbol, &p, version, 0, status);
    return p;
  };
  require(cuInit(0), "cuInit");
  CUdriverProcAddressQueryResult status{};
  out << (look_up("cuNoSuchFunction", 13000, nullptr) ? "found" : "null");
  look_up("", 13000, nullptr);
  look_up("cuMemAlloc", 0, nullptr);
  look_up("cuLibraryLoadData", 11000, &status);
  out << "status" << status;
  look_up("cuNoSuchFunction", 13000, &status);
  out << "status" << status;
}

void look_ups_of_newer(report& out) {
  require(cuInit(0), "cuInit");
  for (int version : {13001, 13010, 99999}) {
    int here = 0;
    void* p = &here;
    auto status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    out << cuGetProcAddress("cuInit", &p, version, 0, &status)
        << (p == &here ? "untouched" : "written") << "status" << status;
  }
}

void forked_child(report& out) {
  use_device();
  pid_t child = ::fork();
  if (child == 0) {
    CUdeviceptr p = 0;
    out << cuMemAlloc(&p, 16) << cuCtxSynchronize() << cuInit(0);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0)
    out << "child ended with" << status;
}

// Those that are the same on every device; the others describe the device.
constexpr struct {
  int attribute, value;
} common_attributes[] = {
    {1, 1024},  {2, 1024},  {3, 1024},  {4, 64},    {5, 2147483647},
    {6, 65535}, {7, 65535}, {8, 49152}, {9, 65536}, {10, 32},
    {19, 1},    {31, 1},    {41, 1},    {78, 1},
};

void attributes(report& out) {
  require(cuInit(0), "cuInit");
  for (auto [attribute, value] : common_attributes) {
    int got = -1;
    auto result = cuDeviceGetAttribute(
        &got, static_cast<CUdevice_attribute>(attribute), 0);
    if (result != CUDA_SUCCESS || got != value)
      out << "attribute" << attribute << result << got;
  }
  for (int attribute = 1; attribute < 160; ++attribute) {
    int got = -1;
    auto result = cuDeviceGetAttribute(
        &got, static_cast<CUdevice_attribute>(attribute), 0);
    auto expected = attribute < 148 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result != expected)
      out << "attribute" << attribute << result;
  }
  out << "done";
}

constexpr truth_case cases[] = {
    {"before_init_refused",
     "before cuInit: DeviceGetCount, CtxGetCurrent, MemAlloc",
     "CUDA_ERROR_NOT_INITIALIZED CUDA_ERROR_NOT_INITIALIZED "
     "CUDA_ERROR_NOT_INITIALIZED",
     before_init_refused},
    {"before_init_answered",
     "before cuInit: DriverGetVersion, GetErrorName, StreamCreate",
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_ERROR_NOT_INITIALIZED",
     before_init_answered},
    {"init", "cuInit(0), cuInit(1), cuInit(0) again",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS", init},
    {"order", "CUDA_DEVICE_ORDER=junk: cuInit", "CUDA_ERROR_INVALID_DEVICE",
     order},
    {"no_order", "CUDA_DEVICE_ORDER=: cuInit", "CUDA_ERROR_INVALID_DEVICE",
     no_order},
    {"bad_devices", "DeviceGet(99), (-1); GetName(len 0), (null)",
     "CUDA_ERROR_INVALID_DEVICE CUDA_ERROR_INVALID_DEVICE (signal 11)",
     bad_devices},
    {"short_name", "DeviceGetName(len 4)", "CUDA_SUCCESS first 3 letters",
     short_name},
    {"short_bus_id", "DeviceGetPCIBusId(len 13), (len 12)",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE cut", short_bus_id},
    {"bus_ids",
     "DeviceGetByPCIBusId: whole, no domain, no function, neither, longer "
     "domain, blank before, blank after",
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE "
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE",
     bus_ids},
    {"texture_widths",
     "DeviceGetTexture1DLinearMaxWidth: 4 floats, 1 byte, 3 bytes",
     "CUDA_SUCCESS CUDA_SUCCESS 4 times CUDA_ERROR_INVALID_VALUE",
     texture_widths},
    {"own_peer", "DeviceGetP2PAtomicCapabilities of one device",
     "CUDA_ERROR_INVALID_DEVICE", own_peer},
    {"error_texts", "GetErrorName(12345), GetErrorString(700)",
     "rc CUDA_ERROR_INVALID_VALUE ptr null 'an illegal memory access was "
     "encountered'",
     error_texts},
    {"all_error_texts", "GetErrorName and GetErrorString of each code",
     "101 texts, digest 3a838bbd24669260", all_error_texts},
    {"look_ups",
     "GetProcAddress: unknown name, empty name, version 0, version too old "
     "(cuLibraryLoadData@11000), unknown name's status",
     "CUDA_SUCCESS null CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS status 2 "
     "CUDA_SUCCESS status 1",
     look_ups},
    {"look_ups_of_newer", "GetProcAddress of cuInit for CUDA 13.1 and newer",
     "CUDA_ERROR_INVALID_VALUE untouched status 1 "
     "CUDA_ERROR_INVALID_VALUE untouched status 1 "
     "CUDA_ERROR_INVALID_VALUE untouched status 1",
     look_ups_of_newer},
    {"forked_child",
     "child of fork after cuInit: MemAlloc, CtxSynchronize, cuInit",
     "CUDA_ERROR_NOT_INITIALIZED CUDA_ERROR_NOT_INITIALIZED "
     "CUDA_ERROR_NOT_INITIALIZED",
     forked_child},
    {"attributes",
     "attributes of device 0: those common to all devices; 1 to 147 known, "
     "148 to 159 not",
     "done", attributes},
};

} // namespace

std::span<const truth_case> start_cases() {
  return cases;
}

} // namespace vgpu::test
