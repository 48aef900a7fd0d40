#include "interposer/code/image_file.hpp"

#include "schema/base/cuda_fault.hpp"

#include <fstream>
#include <string>

namespace vgpu::interposer {

result<std::vector<std::byte>> read_image_file(const char* path) {
  std::ifstream file{path, std::ios::binary | std::ios::ate};
  if (!file)
    return cuda_fault(CUDA_ERROR_FILE_NOT_FOUND,
                      std::string{"cannot open the image "} + path);
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!file)
    return cuda_fault(CUDA_ERROR_FILE_NOT_FOUND,
                      std::string{"cannot read the image "} + path);
  bytes.resize(bytes.size() + 8);
  return bytes;
}

} // namespace vgpu::interposer
