#include "actors/link/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>

#include <cstdlib>

namespace vgpu {

void start_log(const std::string& name, const std::string& level,
               std::FILE* to) {
  using sink = spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;
  auto logger =
      std::make_shared<spdlog::logger>(name, std::make_shared<sink>(to));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %n[%P] %l: %v");
  auto* wanted = std::getenv("VGPU_LOG");
  auto chosen = spdlog::level::from_str(wanted != nullptr ? wanted : level);
  // from_str() returns "off" for an unknown name.
  if (chosen == spdlog::level::off)
    chosen = spdlog::level::from_str(level);
  logger->set_level(chosen);
  spdlog::set_default_logger(std::move(logger));
}

} // namespace vgpu
