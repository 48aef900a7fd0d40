#include "actors/link/log.hpp"

#include "actors/link/printable.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace vgpu {

namespace {

/// Writes a message as shown(): texts of peers are in many of them.
class shown_message final : public spdlog::custom_flag_formatter {
public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    auto text = shown({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<shown_message>();
  }
};

} // namespace

void start_log(const std::string& name, const std::string& level,
               std::FILE* to) {
  using sink = spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;
  auto logger =
      std::make_shared<spdlog::logger>(name, std::make_shared<sink>(to));
  auto lines = std::make_unique<spdlog::pattern_formatter>();
  lines->add_flag<shown_message>('*').set_pattern(
      "%Y-%m-%dT%H:%M:%S.%e %n[%P] %l: %*");
  logger->set_formatter(std::move(lines));
  auto* wanted = std::getenv("VGPU_LOG");
  auto chosen = spdlog::level::from_str(wanted != nullptr ? wanted : level);
  // from_str() returns "off" for an unknown name.
  if (chosen == spdlog::level::off)
    chosen = spdlog::level::from_str(level);
  logger->set_level(chosen);
  spdlog::set_default_logger(std::move(logger));
}

} // namespace vgpu
