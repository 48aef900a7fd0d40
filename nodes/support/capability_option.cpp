#include "nodes/support/capability_option.hpp"

#include "schema/wire/specification.hpp"

namespace vgpu {

void describe_capability(CLI::App& app, std::string& to) {
  constexpr auto oldest = 75;
  app.add_option("--capability", to,
                 "compute capability of each cpu GPU. NVIDIA's libraries "
                 "(cuBLAS, cuDNN ...) bring PTX only for GPUs newer than they "
                 "are: with 13.0 they run here too")
      ->check([](const std::string& text) {
        auto read = control::read_capability(text);
        return read && *read >= oldest
                   ? std::string{}
                   : "'" + text + "': give one from 7.5 to 99.9, as 9.0";
      })
      ->capture_default_str();
}

} // namespace vgpu
