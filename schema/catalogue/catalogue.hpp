// The catalogue of the driver's entry points. The exports, the look-up by name
// and version, the refusals and the coverage table are made from this list.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace vgpu {

/// Says how a driver call is served.
enum class call_class : std::uint8_t {
  local,   ///< is answered in the program
  async,   ///< is appended to the log, without an answer
  create,  ///< is async, with a handle or address that the interposer chooses
  sync,    ///< is appended and waits for its answer (some of its forms may not)
  refused, ///< returns CUDA_ERROR_NOT_SUPPORTED
};

/// Says on which occasions a call does more than its class says: a local call
/// appends, or a call that usually does not wait waits. An entry point has a
/// set of occasions. In the interposer, on_occasion() marks each such step.
enum class occasion : std::uint8_t {
  none = 0,
  /// The call uses an object first and prepares what it needs: a kernel's
  /// module, a thread's own stream or a registered range. Or it ends such an
  /// object and gives that back.
  first_use = 1,
  /// The call shares memory or events with another process.
  sharing = 2,
  /// The call has no room until freed memory or addresses are settled.
  room = 4,
  /// The call reads memory of the program that is not ready, or writes memory
  /// of the program.
  host_memory = 8,
  /// The call uses another device's memory, and the program waits.
  peer = 16,
  /// CUDA_LAUNCH_BLOCKING asks that launches wait.
  launch_blocking = 32,
};

constexpr occasion operator|(occasion x, occasion y) noexcept {
  return static_cast<occasion>(static_cast<unsigned>(x) |
                               static_cast<unsigned>(y));
}
/// Returns whether the set holds the occasion.
constexpr bool holds(occasion set, occasion x) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(x)) != 0;
}

/// Says which stream is the default one of a call: the legacy stream (`none`),
/// or the calling thread's (the `_ptds` and `_ptsz` symbols).
enum class stream_flavour : std::uint8_t { none, ptds, ptsz };

/// Describes one exported symbol.
struct catalogue_entry {
  std::string_view symbol; ///< exported name, such as cuMemcpyHtoD_v2_ptds
  std::string_view name;   ///< name for cuGetProcAddress: cuMemcpyHtoD
  int version = 0;         ///< first CUDA version: 1000 * major + 10 * minor
  stream_flavour flavour = stream_flavour::none;
  call_class served = call_class::refused;
  occasion more = occasion::none; ///< occasions on which it does more
  std::string_view why; ///< reason for the refusal, a noun phrase, or empty
};

/// Lists all exported symbols, sorted by name.
inline constexpr auto catalogue = [] {
  using enum occasion;
  return std::to_array<catalogue_entry>({
#define VGPU_CALL(symbol, base, version, flavour, served, more, why, ...)      \
  {#symbol, #base, version, stream_flavour::flavour, call_class::served,       \
   more,    why},
#include "schema/catalogue/catalogue.def"
#undef VGPU_CALL
  });
}();

/// Returns the entry of an exported symbol, or null.
inline const catalogue_entry* find_symbol(std::string_view symbol) noexcept {
  auto i = std::lower_bound(catalogue.begin(), catalogue.end(), symbol,
                            [](const catalogue_entry& x, std::string_view y) {
                              return x.symbol < y;
                            });
  return i != catalogue.end() && i->symbol == symbol ? &*i : nullptr;
}

constexpr std::string_view to_string(call_class x) noexcept {
  constexpr std::array<std::string_view, 5> names = {"local", "async", "create",
                                                     "sync", "refused"};
  return names.at(static_cast<std::size_t>(x));
}

/// Returns the occasions' names, separated by commas.
inline std::string to_string(occasion set) {
  std::string out;
  auto add = [&](occasion x, std::string_view name) {
    if (!holds(set, x))
      return;
    if (!out.empty())
      out += ", ";
    out += name;
  };
  add(occasion::first_use, "first use");
  add(occasion::sharing, "sharing");
  add(occasion::room, "lack of room");
  add(occasion::host_memory, "host memory");
  add(occasion::peer, "a peer device");
  add(occasion::launch_blocking, "CUDA_LAUNCH_BLOCKING");
  return out;
}

/// Returns what `vgpu coverage` prints: a summary, and a Markdown table with
/// one line for each name and version, which says how it is served and on which
/// occasions it does more. Flavours of a call share its line.
inline std::string coverage_table() {
  std::array<std::size_t, 5> count{};
  std::string lines;
  for (const auto& x : catalogue) {
    ++count.at(static_cast<std::size_t>(x.served));
    if (x.flavour != stream_flavour::none)
      continue;
    lines += "| ";
    lines += x.symbol;
    lines += " | ";
    lines += std::to_string(x.version);
    lines += " | ";
    lines += to_string(x.served);
    lines += " | ";
    lines += x.why;
    lines += " | ";
    lines += to_string(x.more);
    lines += " |\n";
  }
  auto total = catalogue.size();
  auto refused = count.at(static_cast<std::size_t>(call_class::refused));
  std::string out = std::to_string(total - refused) + " of " +
                    std::to_string(total) + " exported symbols are served";
  for (std::size_t i = 0; i < count.size(); ++i) {
    out += i == 0 ? ": " : ", ";
    out += std::to_string(count.at(i));
    out += ' ';
    out += to_string(static_cast<call_class>(i));
  }
  out += ".\n\n| symbol | since | served | refused because | does more on |\n"
         "| --- | --- | --- | --- | --- |\n";
  return out + lines;
}

} // namespace vgpu
