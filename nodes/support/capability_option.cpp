#include "nodes/support/capability_option.hpp"

#include "schema/wire/specification.hpp"

namespace vgpu {

void describe_capability(CLI::App& app, std::string& to) {
  constexpr auto oldest = 75;
  app.add_option("--capability", to,
                 "compute capability of each cpu GPU. NVIDIA's libraries "
                 "(cuBLAS, cuDNN, ...) contain PTX only for GPUs newer than "
                 "themselves: give 13.0 to run them on a cpu GPU")
      ->check([](const std::string& text) {
        auto read = control::read_capability(text);
        return read && *read >= oldest ? std::string{}
                                       : "'" + text +
                                             "': give a compute capability "
                                             "from 7.5 to 99.9, such as 9.0";
      })
      ->capture_default_str();
}

} // namespace vgpu
