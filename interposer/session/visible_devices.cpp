#include "interposer/session/visible_devices.hpp"

#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

namespace vgpu::interposer {

namespace {

/// Formats the device's UUID as nvidia-smi does: "GPU-8932f937-…".
std::string name_of(const device_facts& x) {
  std::string out = "GPU";
  for (std::size_t i = 0; i < x.uuid.size(); ++i) {
    char text[4];
    auto gap = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    std::snprintf(text, sizeof(text), gap ? "-%02x" : "%02x", x.uuid[i]);
    out += text;
  }
  return out;
}

/// Finds a device by its index. Like the driver, it reads digits as strtol
/// does, cuts the number to 32 bits, and ignores the rest of the text.
std::optional<std::uint8_t> by_index(const std::string& item,
                                     std::size_t devices) {
  char* end = nullptr;
  auto value = static_cast<std::int32_t>(std::strtol(item.c_str(), &end, 10));
  if (end == item.c_str() || value < 0 ||
      static_cast<std::size_t>(value) >= devices)
    return std::nullopt;
  return static_cast<std::uint8_t>(value);
}

/// Tells whether one of `item` and the device's name begins with the other. As
/// the driver, this ignores the case of digits, and takes the UUID of a whole
/// device with MIG's prefix too.
bool begins(const std::string& item, const std::string& name) {
  constexpr std::string_view kind = "GPU-";
  if ((!item.starts_with(kind) && !item.starts_with("MIG-")) ||
      item.size() == kind.size())
    return false;
  for (auto i = kind.size(); i < std::min(item.size(), name.size()); ++i)
    if (std::tolower(static_cast<unsigned char>(item[i])) != name[i])
      return false;
  return true;
}

std::optional<std::uint8_t> by_name(const std::string& item,
                                    std::span<const device_facts> devices) {
  std::optional<std::uint8_t> out;
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (begins(item, name_of(devices[d]))) {
      if (out)
        return std::nullopt;
      out = static_cast<std::uint8_t>(d);
    }
  return out;
}

} // namespace

result<std::vector<std::uint8_t>>
visible_devices(std::string_view text, std::span<const device_facts> devices) {
  // The first item decides whether all items are names or indices.
  auto names = text.starts_with('G') || text.starts_with('M');
  std::vector<std::uint8_t> out;
  while (!text.empty()) {
    std::string item{text.substr(0, text.find(','))};
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    auto device =
        names ? by_name(item, devices) : by_index(item, devices.size());
    if (!device)
      break;
    if (std::count(out.begin(), out.end(), *device) != 0)
      return cuda_fault(CUDA_ERROR_INVALID_DEVICE,
                        "CUDA_VISIBLE_DEVICES names a device twice: '" + item +
                            "'");
    out.push_back(*device);
  }
  if (out.empty())
    return fault{fault_kind::no_device,
                 "CUDA_VISIBLE_DEVICES names none of this vGPU's " +
                     std::to_string(devices.size()) + " device(s)"};
  return out;
}

bool is_device_order(std::string_view text) noexcept {
  return text == "FASTEST_FIRST" || text == "PCI_BUS_ID";
}

} // namespace vgpu::interposer
