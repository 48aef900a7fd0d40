// Passes damaged images to the driver: cut short, with changed bits, or random.
// The driver must refuse each with an image error, or load it if the damage
// does not matter. A valid image must load after each.
// nvcc: -lcuda
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

typedef std::vector<char> bytes;

static void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS)
    return;
  const char* name = "?";
  cuGetErrorName(result, &name);
  std::printf("%s: %s\n", call, name);
  std::exit(1);
}
#define CHECK(call) check(call, #call)

static bytes read_file(const char* path) {
  std::ifstream in(path, std::ios::binary);
  bytes out{std::istreambuf_iterator<char>(in), {}};
  if (out.empty()) {
    std::printf("cannot read %s\n", path);
    std::exit(2);
  }
  return out;
}

static void check_good(const bytes& image) {
  CUmodule module;
  CUfunction answer;
  CUdeviceptr p;
  int value = 0;
  CHECK(cuModuleLoadData(&module, image.data()));
  CHECK(cuModuleGetFunction(&answer, module, "answer"));
  CHECK(cuMemAlloc(&p, sizeof value));
  void* parameters[] = {&p};
  CHECK(cuLaunchKernel(answer, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters,
                       nullptr));
  CHECK(cuMemcpyDtoH(&value, p, sizeof value));
  CHECK(cuMemFree(p));
  CHECK(cuModuleUnload(module));
  if (value != 42) {
    std::printf("the good image answers %d\n", value);
    std::exit(1);
  }
}

/// Returns whether the error is about the image.
static bool is_about_images(CUresult result) {
  static const std::set<CUresult> known = {
      CUDA_ERROR_INVALID_VALUE,
      CUDA_ERROR_INVALID_IMAGE,
      CUDA_ERROR_NO_BINARY_FOR_GPU,
      CUDA_ERROR_INVALID_PTX,
      CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
      CUDA_ERROR_INVALID_SOURCE,
      CUDA_ERROR_FILE_NOT_FOUND,
      CUDA_ERROR_NOT_FOUND,
      CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
      CUDA_ERROR_SHARED_OBJECT_INIT_FAILED,
      CUDA_ERROR_NOT_SUPPORTED,
      CUDA_ERROR_JIT_COMPILER_NOT_FOUND};
  return known.count(result) != 0;
}

static int refused = 0, loaded = 0;

static void note(CUresult result, CUmodule module, const std::string& what) {
  if (result == CUDA_SUCCESS) {
    ++loaded;
    std::printf("loaded: %s\n", what.c_str());
    CHECK(cuModuleUnload(module));
    return;
  }
  ++refused;
  if (!is_about_images(result)) {
    const char* name = "?";
    cuGetErrorName(result, &name);
    std::printf("%s: %s\n", what.c_str(), name);
    std::exit(1);
  }
}

/// Loads from memory. The missing part is zero, because the driver does not
/// know where the buffer ends.
static void load_data(bytes image, const std::string& what) {
  CUmodule module = nullptr;
  image.resize(image.size() + 4096, 0);
  CUresult result = cuModuleLoadData(&module, image.data());
  note(result, module, what);
}

/// Loads from a file, whose end the driver knows.
static void load_file(const bytes& image, const std::string& path,
                      const std::string& what) {
  std::ofstream(path, std::ios::binary).write(image.data(), image.size());
  CUmodule module = nullptr;
  CUresult result = cuModuleLoad(&module, path.c_str());
  note(result, module, what);
}

static void try_cut(const bytes& good, const std::string& path) {
  for (size_t i = 0; i < 40; ++i) {
    size_t size = i < 20 ? i * 4 : good.size() * (i - 19) / 21;
    bytes cut(good.begin(), good.begin() + size);
    std::string what = "cut to " + std::to_string(size) + " bytes";
    load_file(cut, path, what + ", a file");
    cut.resize(good.size(), 0);
    load_data(cut, what);
  }
}

static void try_damage(const bytes& good, const std::string& path) {
  std::mt19937 random(20);
  for (int i = 0; i < 60; ++i) {
    bytes image = good;
    // Half of the changes hit the headers.
    size_t within = i % 2 ? image.size() : 96;
    for (int flips = 0; flips < 3; ++flips)
      image[random() % within] ^= static_cast<char>(1 << (random() % 8));
    // The sizes in the damaged file may exceed the file.
    load_file(image, path, "damaged, number " + std::to_string(i));
  }
}

static void try_garbage(const std::string& path) {
  std::mt19937 random(30);
  static const char* beginnings[] = {"", "\x50\xed\x55\xba",
                                     "\x7f"
                                     "ELF",
                                     ".version 8.0\n.target sm_80\n", "//"};
  for (int i = 0; i < 50; ++i) {
    std::string start = beginnings[i % 5];
    bytes image(start.begin(), start.end());
    for (size_t n = random() % 5000; n > 0; --n)
      image.push_back(static_cast<char>(random()));
    load_file(image, path, "garbage, number " + std::to_string(i));
  }
  static const char* texts[] = {
      "",
      "hello",
      ".version",
      ".version 99.0\n.target sm_75\n",
      ".version 7.0\n.target sm_75\n.address_size 64\n.entry f( {",
      ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry f() "
      "{ no.such.instruction %r1; ret; }",
      ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry f() "
      "{ bra nowhere; }"};
  for (const char* text : texts) {
    bytes image(text, text + std::string(text).size());
    load_data(image, std::string("the text '") + text + "'");
  }
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: images FATBIN CUBIN SCRATCH-FILE\n");
    return 2;
  }
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  bytes fatbin = read_file(argv[1]), cubin = read_file(argv[2]);
  check_good(fatbin);
  for (const bytes* image : {&fatbin, &cubin}) {
    try_cut(*image, argv[3]);
    check_good(fatbin);
    try_damage(*image, argv[3]);
    check_good(fatbin);
  }
  try_garbage(argv[3]);
  check_good(fatbin);
  std::printf("%d refused, %d loaded all the same\nok\n", refused, loaded);
  return refused > 100 ? 0 : 1;
}
