// vgpu-worker: executes the calls of one session. Its node starts it.
#include "actors/client/fence.hpp"
#include "actors/compute/share_governor.hpp"
#include "actors/lend/switchboard.hpp"
#include "actors/link/frames.hpp"
#include "actors/link/key_guard.hpp"
#include "actors/link/link.hpp"
#include "actors/link/log.hpp"
#include "actors/link/system.hpp"
#include "actors/worker/checkpoint/preparation_desk.hpp"
#include "actors/worker/worker.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "devices/nvidia/nvidia_device.hpp"
#include "nodes/daemons/helper_process.hpp"
#include "nodes/daemons/steady_addresses.hpp"
#include "nodes/daemons/worker_helpers.hpp"
#include "nodes/daemons/zmq_busy_poll.hpp"
#include "nodes/sandbox/sandbox.hpp"
#include "nodes/support/descriptor_limit.hpp"
#include "nodes/support/stop_signal.hpp"
#include "nodes/support/version.hpp"

#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <future>
#include <iomanip>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

using namespace vgpu;

namespace {

struct options {
  std::string node;
  std::uint64_t session = 0;
  std::uint64_t vgpu = 0;
  std::string device = "cpu";
  std::vector<std::uint32_t> pgpus{0};
  std::uint64_t memory = 0;
  unsigned capability = 90;
  std::uint64_t quota = 0;
  std::string bind;
  bool keys = false;
  std::string host;
  std::vector<int> boards;
  int usage = -1;
  int line = -1;
  int dry_run = -1;
  std::string sandbox = "auto";
};

bool binds_tcp(const options& given) {
  return given.bind.starts_with("tcp://");
}

/// Says what the worker needs in its sandbox.
sandbox_needs needs_of(const options& given) {
  constexpr std::string_view ipc = "ipc://";
  sandbox_needs out;
  out.nvidia = given.device == "nvidia";
  out.tcp_port = binds_tcp(given);
  if (given.bind.starts_with(ipc))
    out.socket_folder =
        given.bind.substr(ipc.size(), given.bind.rfind('/') - ipc.size());
  out.connected_by_node = given.line >= 0;
  return out;
}

/// Says what the node sends on standard input, perhaps long after the start.
/// The token is a secret, and everybody can read a process's arguments.
struct orders {
  std::uint64_t epoch = 0;
  std::uint64_t token = 0;
  std::vector<std::int32_t> seats; // one for each pGPU
  std::string client_key;          // public, or `none`
};

/// Bounds the text of a key in the orders.
constexpr int most_key_text = 64;

/// Reads the orders. Returns nothing where the node has none for this worker,
/// or is gone.
std::optional<orders> read_orders(std::size_t pgpus) {
  orders out;
  if (!(std::cin >> out.epoch >> out.token) || out.epoch == 0)
    return std::nullopt;
  out.seats.resize(pgpus, policy::share_table::nobody);
  for (auto& x : out.seats)
    if (!(std::cin >> x) || x >= static_cast<int>(policy::most_seats))
      return std::nullopt;
  std::cin >> std::setw(most_key_text) >> out.client_key;
  return out;
}

/// Opens stderr under another descriptor. A device's driver writes the
/// assertions of kernels to the usual one, from which the program gets them.
std::FILE* log_file() {
  auto* out = ::fdopen(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), "w");
  if (out == nullptr)
    return stderr;
  ::setvbuf(out, nullptr, _IONBF, 0);
  return out;
}

std::uint64_t random_number() {
  std::uint64_t out = 0;
  if (::getrandom(&out, sizeof(out), 0) != sizeof(out))
    throw std::runtime_error{
        "the kernel provides no random numbers (getrandom)"};
  return out;
}

std::string guest_socket_name(const options& given) {
  return "vgpu-worker-" + std::to_string(given.session) + "-" +
         std::to_string(random_number());
}

/// Returns the name of the socket at which the worker makes objects before its
/// orders come.
std::string desk_socket_name(const options& given) {
  char number[17];
  std::snprintf(number, sizeof(number), "%016llx",
                static_cast<unsigned long long>(random_number()));
  return std::string{desk_socket_prefix} + std::to_string(given.session) + "-" +
         number;
}

/// Returns how the worker reaches others: by way of its node, or, started
/// without a line to it, by itself.
worker_connector connector_of(const options& given) {
  if (given.line < 0)
    return connect_abstract;
  ::fcntl(given.line, F_SETFD, FD_CLOEXEC); // helpers reach nobody
  return connector_over(unique_fd{given.line});
}

/// Says how long the last messages may take before the process ends.
constexpr std::chrono::milliseconds last_words{200};

/// Gives the pieces of a full channel of the cpu device, where it has channels:
/// fewer than a GPU's, so that a test's program fills one soon.
constexpr unsigned cpu_pieces_in_channel = 16;

/// Says how many channels the cpu device has, for tests: 0 means that each
/// stream has its own.
unsigned cpu_channels() {
  auto* wanted = std::getenv("VGPU_CPU_CHANNELS");
  return wanted == nullptr
             ? 0U
             : static_cast<unsigned>(std::strtoul(wanted, nullptr, 10));
}

std::unique_ptr<device::device> open_device(const options& given,
                                            std::uint32_t pgpu) {
  auto ordinal = static_cast<int>(pgpu);
  if (given.device == "cpu")
    return device::open_cpu_device({.ordinal = ordinal,
                                    .memory = given.memory,
                                    .capability = given.capability,
                                    .channels = cpu_channels(),
                                    .pieces_in_channel = cpu_pieces_in_channel},
                                   given.quota);
  if (given.device != "nvidia")
    throw std::runtime_error{"device '" + given.device +
                             "' is unknown; give cpu or nvidia"};
  auto opened = device::open_nvidia_device(
      ordinal, {given.pgpus.begin(), given.pgpus.end()});
  if (!opened)
    throw std::runtime_error{opened.why().what};
  return std::move(*opened);
}

std::vector<std::unique_ptr<device::device>>
open_devices(const options& given) {
  std::vector<std::unique_ptr<device::device>> devices;
  for (auto pgpu : given.pgpus)
    devices.push_back(open_device(given, pgpu));
  return devices;
}

/// Opens the gate. Returns null where the session takes no turns, and where the
/// device's own threads take them.
std::unique_ptr<share_gate> open_gate(int board_fd, std::int32_t seat,
                                      device::device& on) {
  if (board_fd < 0 || seat < 0)
    return nullptr;
  auto board = share_board::open(unique_fd{board_fd});
  if (!board)
    throw std::runtime_error{board.why().what};
  if (auto* threads = dynamic_cast<device::governed*>(&on)) {
    threads->govern_by(
        std::make_shared<share_governor>(std::move(*board), seat));
    return nullptr;
  }
  return std::make_unique<share_gate>(std::move(*board), seat, on);
}

/// Opens the page in which the node finds the session's usage.
std::shared_ptr<usage_page> open_account(const options& given) {
  if (given.usage < 0)
    return nullptr;
  auto page = usage_page::open(unique_fd{given.usage});
  if (!page)
    throw std::runtime_error{page.why().what};
  return std::move(*page);
}

share_gates open_gates(const options& given, const orders& orders,
                       executor& exec) {
  std::vector<std::unique_ptr<share_gate>> gates;
  for (auto i = 0u; i < given.boards.size() && i < given.pgpus.size(); ++i)
    gates.push_back(open_gate(given.boards[i], orders.seats[i], exec.on(i)));
  return share_gates{std::move(gates)};
}

/// Makes the keys of the worker's port; null: it has none.
std::unique_ptr<port_keys> open_keys(const options& given,
                                     zmq::context_t& zmq) {
  if (!given.keys || !binds_tcp(given))
    return nullptr;
  auto keys = port_keys::make(zmq);
  if (!keys)
    throw std::runtime_error{keys.why().what};
  return std::move(*keys);
}

void die_with_parent() {
  auto parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before that took effect.
  if (::getppid() != parent || parent == 1)
    ::_exit(1);
}

/// Returns the arguments of a dry run: the devices, and an endpoint within the
/// process, because its sandbox lets it open no socket.
std::vector<std::string> arguments_of_dry_run(const options& given) {
  std::string pgpus;
  for (auto x : given.pgpus)
    pgpus += (pgpus.empty() ? "" : ",") + std::to_string(x);
  auto session = std::to_string(given.session);
  std::string nobody = "inproc://vgpu-dry-run";
  return {"vgpu-worker",
          "--node-endpoint",
          nobody,
          "--session",
          session,
          "--vgpu",
          std::to_string(given.vgpu),
          "--device",
          given.device,
          "--pgpu",
          pgpus,
          "--memory-of-pgpu",
          std::to_string(given.memory),
          "--capability",
          std::to_string(given.capability),
          "--quota",
          std::to_string(given.quota),
          "--bind",
          nobody + "-data",
          "--host-id",
          given.host,
          "--sandbox",
          given.sandbox};
}

/// Checks, for the worker that started this process, whether the next worker
/// can restore the session. Everything up to here is the same as in that
/// worker. Writes the reason of a failure to `to`.
[[noreturn]] void dry_run(const options& given, executor& exec, std::FILE* to) {
  auto ok = exec.dry_run(given.dry_run);
  if (!ok)
    std::fputs(ok.why().what.c_str(), to);
  ::_exit(ok ? 0 : 1);
}

/// Prints the NVIDIA devices. A node runs this in a process of its own, because
/// the driver would occupy memory of every device for as long as the node
/// lives.
int list_nvidia() {
  auto all = device::nvidia_properties();
  if (!all) {
    std::cerr << all.why().what << '\n';
    return 1;
  }
  std::cout << device::write_properties(*all) << std::flush;
  ::_exit(0);
}

/// Checkpoints or restores the parent process, which requested it. A process
/// cannot do this to itself, because its calls into the driver block from the
/// first step on. The effect of a step outlives this process, so another one
/// can continue.
int checkpoint_or_restore(std::string_view how, const char* number) {
  die_with_parent();
  auto pid = std::atoi(number);
  if (pid != ::getppid()) {
    std::cerr
        << "only a worker may request this, and only for its own process\n";
    return helper_refused;
  }
  auto ok = how == "--checkpoint" ? device::nvidia_checkpoint(pid)
                                  : device::nvidia_restore(pid);
  if (!ok)
    std::cerr << ok.why().what << std::flush;
  constexpr auto nobody_knows = helper_refused + 1;
  ::_exit(ok                                         ? 0
          : ok.why().kind == fault_kind::unsupported ? helper_refused
                                                     : nobody_knows);
}

/// Has the node end the standbys on the session's devices. Returns whether
/// there were any.
bool end_standbys(caf::actor_system& system, const worker_actor& reporter) {
  constexpr std::chrono::seconds patience{5};
  caf::scoped_actor self{system};
  auto ended = false;
  self->request(reporter, patience, standbys_in_the_way{})
      .receive([&](bool any) { ended = any; }, [](const caf::error&) {});
  return ended;
}

int run(const options& given) {
  allow_many_descriptors();
  sandbox_report sandbox;
  if (given.sandbox != "off")
    enter_sandbox(needs_of(given), sandbox);
  reuse_frames_memory();
  stop_signal stop;
  auto* log = log_file();
  start_log("vgpu-worker/" + std::to_string(given.session),
            given.dry_run < 0 ? "info" : "error", log);
  auto name = "worker/" + std::to_string(given.session);
  auto guest_name = guest_socket_name(given);
  auto listener = listen_abstract(guest_name);
  if (!listener)
    throw std::runtime_error{listener.why().what};
  auto desk_name = desk_socket_name(given);
  auto desk_listener = listen_abstract(desk_name);
  if (!desk_listener)
    throw std::runtime_error{desk_listener.why().what};
  auto connect = connector_of(given);

  auto polling = chosen_busy_poll();
  if (!polling)
    throw std::runtime_error{polling.why().what};
  constexpr std::chrono::nanoseconds where_scarce{0};
  zmq_busy_poll io_busy_poll{polling->limits(where_scarce)};
  zmq::context_t zmq{
      2}; // Each of a program's two connections has an I/O thread.
  system_config config{1};
  caf::actor_system system{config};
  link_options data;
  data.as = link_options::form::bind;
  data.endpoint = given.bind;
  data.io_thread = 0;
  data.second_port = true;
  data.name = name;
  auto keys = open_keys(given, zmq);
  if (keys)
    data.keys = keys->link();
  auto socket =
      std::make_unique<link_socket>(zmq, data, link_socket::peers::greet);

  worker_options own;
  own.name = name;
  own.session = {given.session};
  if (keys)
    own.on_client_key = [&](const std::string& key, const std::string& former) {
      keys->admit(key, former);
    };
  std::promise<void> connected;
  if (given.sandbox != "off")
    own.on_connected = [&] { connected.set_value(); };

  auto exec = std::make_unique<executor>(open_devices(given), given.quota);
  if (given.device == "cpu")
    exec->when_allowed(device::allow_cpu_device);
  own.next = {desk_name, random_number()};
  auto gauges = std::make_shared<session_gauges>(open_account(given));

  link_options to_node;
  to_node.endpoint = given.node;
  to_node.name = name;
  to_node.greeting = control::hello{.software = version_of("vgpu-worker"),
                                    .as = control::role::worker};
  auto link = spawn_link(system, zmq, to_node);
  if (!link)
    throw std::runtime_error{link.why().what};
  auto reporter =
      system.spawn(worker, own, link->actor, gauges, [&] { stop.stop(1); });
  take_stacks();
  if (given.dry_run >= 0)
    dry_run(given, *exec, log);
  // ZeroMQ opens the link's socket on a thread of its own.
  if (given.sandbox != "off") {
    connected.get_future().wait();
    seal_sandbox(needs_of(given), sandbox);
    spdlog::debug("{}: sandbox: {}", name, sandbox.text());
  }
  // From here on the devices are open, so no session waits for that.
  preparation_desk desk{desk_listener->get(), own.session, own.next.token,
                        *exec};
  auto orders = read_orders(given.pgpus.size());
  desk.end();
  *desk_listener = unique_fd{};
  auto contents = desk.take_contents();
  auto lent = desk.take_lent();
  if (!orders) {
    spdlog::error("{}: no orders on standard input. Do not start a worker by "
                  "hand: its node starts it.",
                  name);
    ::_exit(1);
  }
  if (keys)
    keys->admit(orders->client_key);
  exec->gates() = open_gates(given, *orders, *exec);
  vgpu_actor_options serving;
  serving.vgpu = {given.vgpu};
  serving.session = own.session;
  serving.epoch = {orders->epoch};
  serving.token = orders->token;
  serving.endpoints = {socket->endpoint(), guest_name, given.host,
                       keys ? keys->open() : std::string{}};
  serving.dry_run =
      dry_run_process("/proc/self/exe", arguments_of_dry_run(given));
  exec->connect_by(connect);
  serving.preparation = [connect](auto& to, auto session, auto files,
                                  auto ring) {
    return prepare_next_worker(to, session, files, connect, std::move(ring));
  };
  serving.tell_of_standby = [reporter](control::standby_news news) {
    caf::anon_send(reporter, standby_said{news});
  };
  exec->when_short(
      [&system, reporter] { return end_standbys(system, reporter); });
  if (contents)
    serving.contents = std::make_shared<const unique_fd>(std::move(contents));
  if (lent.parcel)
    serving.lent = std::make_shared<const lent_parcel>(std::move(lent));
  if (given.device == "nvidia" && device::nvidia_can_checkpoint())
    serving.gpu_mover = gpu_move_process("/proc/self/exe");
  serving.mapped_busy_poll = polling->limits(serving.mapped_busy_poll.longest);
  serving.forwarded_busy_poll = polling->limits(where_scarce);
  auto vgpu = spawn_vgpu_actor(system, serving, std::move(exec),
                               std::move(socket), std::move(*listener), gauges,
                               [&](const std::string& why, bool clean) {
                                 spdlog::info("{}: exiting: {}", name, why);
                                 stop.stop(clean ? 0 : 1);
                               });
  caf::anon_send(reporter, worker_begins{vgpu});
  auto status = stop.wait();
  // The account must include the last work. The session may be deep in a call.
  caf::anon_send_exit(vgpu, caf::exit_reason::user_shutdown);
  stop.await_stop(last_words);
  spdlog::debug("{}: ZeroMQ I/O threads busy-polled in {} of {} waits and "
                "received something in {} of these.",
                name, io_busy_poll.busy_polled(), io_busy_poll.waited(),
                io_busy_poll.found());
  // The kernel frees everything of a worker at once.
  ::_exit(status);
}

} // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view{argv[1]} == "--list-nvidia")
    return list_nvidia();
  if (std::string_view how{argc == 3 ? argv[1] : ""};
      how == "--checkpoint" || how == "--restore")
    return checkpoint_or_restore(how, argv[2]);
  CLI::App app{"Executes the driver calls of one session. A node starts it."};
  app.set_version_flag("--version", version_of("vgpu-worker"),
                       "Print the version and exit");
  options given;
  app.add_option("--node-endpoint", given.node, "The node's endpoint")
      ->required();
  app.add_option("--session", given.session)->required();
  app.add_option("--vgpu", given.vgpu)->required();
  app.add_option("--device", given.device, "Backend")->capture_default_str();
  app.add_option("--pgpu", given.pgpus, "Ordinals of the session's pGPUs")
      ->delimiter(',');
  app.add_option("--memory-of-pgpu", given.memory, "Bytes")->required();
  app.add_option("--capability", given.capability,
                 "Compute capability of the pGPUs times 10: 90 is 9.0")
      ->capture_default_str();
  app.add_option("--quota", given.quota,
                 "Memory quota on each device, in bytes")
      ->required();
  app.add_option("--bind", given.bind,
                 "Endpoint on which the worker accepts forwarded calls")
      ->required();
  app.add_flag("--keys", given.keys,
               "Admit only the session's client at a TCP endpoint, by its key");
  app.add_option("--sandbox", given.sandbox, "auto, or off")
      ->check(CLI::IsMember({"auto", "off"}));
  app.add_option("--host-id", given.host, "Identifier of the node's host")
      ->required();
  app.add_option("--boards", given.boards,
                 "File descriptors of the pGPUs' boards")
      ->delimiter(',');
  app.add_option("--usage", given.usage,
                 "File descriptor of the session's usage account");
  app.add_option("--line", given.line,
                 "File descriptor of a line to the node, which connects the "
                 "worker to others");
  app.add_option(
      "--dry-run", given.dry_run,
      "File descriptor of a session's state: test whether its objects can be "
      "created again with variables at the same addresses, and exit");
  CLI11_PARSE(app, argc, argv);
  try {
    if (given.device == "nvidia")
      keep_heap_apart();
    if (given.dry_run >= 0)
      die_with_parent();
    return run(given);
  } catch (const std::exception& x) {
    std::cerr << "vgpu-worker: " << x.what() << '\n';
    return 1;
  }
}
