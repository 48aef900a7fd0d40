#include "actors/node/worker_command.hpp"

#include "actors/link/log.hpp"

#include <string_view>

#include <unistd.h>

namespace vgpu {

namespace {

std::string joined(const std::vector<std::uint32_t>& x) {
  std::string out;
  for (auto each : x)
    out += (out.empty() ? "" : ",") + std::to_string(each);
  return out;
}

std::string bind_for(const supervisor_options& opts, session_id session,
                     std::uint64_t tag) {
  auto out = opts.worker_bind;
  if (auto at = out.find("%s"); at != std::string::npos)
    // Nodes of one host may share one folder.
    out.replace(at, 2,
                opts.name + "-" + std::to_string(session.value) + "-" +
                    std::to_string(tag));
  return out;
}

/// Adds the boards at which the worker takes turns: a descriptor for each of
/// its pGPUs, in order; -1 where it takes none.
void add_boards(child_spec& to, const share_boards& boards,
                const std::vector<std::uint32_t>& pgpus) {
  auto keeps = std::make_shared<std::vector<std::shared_ptr<share_board>>>();
  std::string numbers;
  for (auto ordinal : pgpus) {
    auto i = boards.find(ordinal);
    auto fd = i != boards.end() && i->second ? i->second->fd() : -1;
    numbers += (numbers.empty() ? "" : ",") + std::to_string(fd);
    if (fd < 0)
      continue;
    to.descriptors.push_back(fd);
    keeps->push_back(i->second);
  }
  to.argv.push_back("--boards=" + numbers);
  to.keeps = std::move(keeps);
}

/// Adds the line by which the worker reaches others of this host. Without one
/// it reaches none.
void add_line(child_spec& to, session_id session, switchboard& lines) {
  auto line = lines.open_line();
  if (!line) {
    spdlog::error("session {} cannot use what others share, because its worker "
                  "has no line to them: {}",
                  session.value, line.why().what);
    return;
  }
  auto fd = line->get();
  to.argv.insert(to.argv.end(), {"--line", std::to_string(fd)});
  to.descriptors.push_back(fd);
  to.keeps =
      std::make_shared<std::pair<std::shared_ptr<const void>, unique_fd>>(
          to.keeps, std::move(*line));
}

} // namespace

child_spec command_of(const supervisor_options& opts,
                      const share_boards& boards,
                      const control::prepare_worker& x, std::uint64_t tag) {
  std::string device = "cpu";
  std::uint64_t memory = 0;
  std::int32_t capability = 0;
  for (const auto& pgpu : opts.pgpus)
    if (pgpu.ordinal == x.pgpus.front()) {
      device = pgpu.backend;
      memory = pgpu.facts.total_memory;
      capability = pgpu.facts.capability();
    }
  child_spec out;
  out.argv = {opts.worker_program,
              "--node-endpoint",
              opts.worker_endpoint,
              "--session",
              std::to_string(x.session.value),
              "--vgpu",
              std::to_string(x.vgpu.value),
              "--device",
              device,
              "--pgpu",
              joined(x.pgpus),
              "--memory-of-pgpu",
              std::to_string(memory),
              "--capability",
              std::to_string(capability),
              "--quota",
              std::to_string(x.quota),
              "--bind",
              bind_for(opts, x.session, tag),
              "--host-id",
              opts.host};
  // NVIDIA's driver puts modules' variables and managed memory where its
  // process has room. After a recovery they must have the same addresses, which
  // must be free in the program.
  out.same_addresses = device == "nvidia";
  out.input_later = true;
  if (opts.sandboxed)
    out.quota = x.quota * x.pgpus.size();
  else
    out.argv.push_back("--sandbox=off");
  if (opts.keyed)
    out.argv.push_back("--keys");
  add_boards(out, boards, x.pgpus);
  if (opts.lines)
    add_line(out, x.session, *opts.lines);
  return out;
}

std::string orders_of(const control::start_worker& x,
                      std::span<const std::int32_t> seats) {
  auto out = std::to_string(x.epoch.value) + " " + std::to_string(x.token);
  for (auto seat : seats)
    out += " " + std::to_string(seat);
  // A key has no spaces.
  return out + (x.client_key.empty() ? " none" : " " + x.client_key) + "\n";
}

control::prepare_worker preparation_of(const control::start_worker& x) {
  return {x.session, x.vgpu, x.pgpus, x.quota};
}

void remove_socket(const supervisor_options& opts, session_id session,
                   std::uint64_t tag) {
  constexpr std::string_view ipc = "ipc://";
  if (auto where = bind_for(opts, session, tag); where.starts_with(ipc))
    ::unlink(where.c_str() + ipc.size());
}

} // namespace vgpu
