#include "actors/link/log.hpp"

#include "actors/link/log_file.hpp"
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

/// Writes lines, and bounds the file that they go to.
class bounded_sink final
    : public spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex> {
public:
  explicit bounded_sink(std::FILE* to)
      : stdout_sink_base(to),
        file_(::fileno(to), std::getenv("VGPU_LOG_FILE")) {}

  void log(const spdlog::details::log_msg& message) override {
    stdout_sink_base::log(message);
    file_.look();
  }

private:
  log_file file_;
};

} // namespace

void start_log(const std::string& name, const std::string& level,
               std::FILE* to) {
  auto logger = std::make_shared<spdlog::logger>(
      name, std::make_shared<bounded_sink>(to));
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
