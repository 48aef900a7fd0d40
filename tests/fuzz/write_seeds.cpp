// Writes the well-formed inputs of the corpora. Run it when a format has
// changed.
#include "actors/client/guest_codec.hpp"
#include "actors/link/codec.hpp"
#include "actors/link/data_head.hpp"
#include "actors/state/state_file.hpp"
#include "schema/wire/call_codec.hpp"
#include "schema/wire/data.capnp.h"
#include "schema/wire/guest.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <filesystem>
#include <fstream>
#include <iostream>

using namespace vgpu;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& to, std::span<const std::byte> bytes) {
  fs::create_directories(to.parent_path());
  std::ofstream out{to, std::ios::binary};
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out)
    throw std::runtime_error{"cannot write " + to.string()};
}

template <class T>
void write_words(const fs::path& to, const T& words) {
  write(to, std::as_bytes(std::span{words}));
}

void write_message(const fs::path& to, capnp::MessageBuilder& message) {
  auto words = capnp::messageToFlatArray(message);
  auto bytes = words.asBytes();
  write(to, std::as_bytes(std::span{bytes.begin(), bytes.size()}));
}

/// Writes one record of each call, contiguous as in a log.
void write_log(const fs::path& dir) {
  std::vector<std::uint64_t> log;
  std::array<std::byte, 28> parameters{};
  auto add = [&]<class Call>(Call x) {
    if constexpr (call::detail::has_bytes<Call>)
      x.bytes = parameters;
    constexpr std::uint32_t payload = 16;
    auto words = call::message_words(x);
    std::vector<std::uint64_t> record(record_bytes(words, payload) / 8);
    record_header header{.size = static_cast<std::uint32_t>(8 * record.size()),
                         .message_words = static_cast<std::uint16_t>(words),
                         .slot = 1,
                         .payload_bytes = payload,
                         .digest = 0};
    std::memcpy(record.data(), static_cast<const void*>(&header),
                sizeof(header));
    call::encode(x, 0, std::span{record}.subspan(2, words));
    write_words(dir / ("call-" + std::to_string(static_cast<int>(Call::id))),
                record);
    log.insert(log.end(), record.begin(), record.end());
  };
  std::apply([&](auto... x) { (add(x), ...); }, call::all{});
  write_words(dir / "all", log);
}

void write_heads(const fs::path& dir) {
  data::body bodies[] = {
      data::attach{.token = 1,
                   .waiting = {{{8}, 3}, {{16}, 4}},
                   .on_divergence = control::divergence::error,
                   .covered = 8},
      data::calls{8, 800},
      data::keepalive{800, 7},
      data::detach{},
      data::progress{.received = 800, .executed = 8, .compares = true},
      data::attached{{.received = 80}},
      data::answer{.number = 1,
                   .call = {8},
                   .slot = 1,
                   .where = data::answer::place::arena,
                   .at = 64},
      data::refused{"another epoch"},
      data::differs{{8}, 1, true, "call 8"},
      data::join{99},
      data::prepare{7},
      data::prepared{"its images are too large"},
      data::cover_wanted{8},
      data::covered{8}};
  for (auto& x : bodies)
    write_words(dir / std::to_string(x.index()), data::encode({{1}, {2}, x}));
}

void write_envelopes(const fs::path& dir) {
  control::device_facts facts;
  facts.name = "GPU";
  facts.attributes = {{1, 1024}};
  control::worker_endpoints worker{"tcp://h:1", "w-1", "host"};
  control::session_load load;
  load.session = {1};
  control::specification asked;
  control::program program{"heat", 1, "host", "user"};
  control::lease lease;
  lease.session = {1};
  lease.node = "a";
  lease.worker = worker;
  lease.devices = {facts};
  lease.pgpus = {0};
  control::start_worker start;
  start.session = {1};
  start.pgpus = {0};
  control::adopt adopt;
  adopt.session = {1};
  adopt.program = program;
  control::event event;
  event.kind = "replaced";
  event.node = "a";
  control::body bodies[] = {
      control::refusal{CUDA_ERROR_NO_DEVICE, "no node", {1}},
      control::hello{},
      control::welcome{},
      control::register_node{"a",
                             "host",
                             1,
                             {{0, "cpu", facts}},
                             {{{1}, {2}, {1}, {0}, worker, 77}},
                             "seccomp"},
      control::node_beat{"a", 1, {load}},
      control::worker_started{{1}, {2}, worker, 77, {}},
      control::worker_exited{{1}, {2}, "signal 9", false},
      control::beat_ack{},
      start,
      control::stop_worker{{1}, {2}, "fenced"},
      control::acquire{asked, program, 61'000},
      adopt,
      control::suspect{{1}, {2}, "gone"},
      control::close_session{{1}, {2}, "ended"},
      event,
      lease,
      control::worker_hello{{1}, {2}, worker, {}},
      control::worker_beat{load, CUDA_SUCCESS},
      control::inject_fault{"a", 0, injected_fault::lost},
      control::status_request{},
      control::status_text{"{}"},
      control::events_request{3, 100},
      control::events{{event, event}},
      control::shutdown{},
      control::done{}};
  for (auto& x : bodies) {
    auto frame = control::encode({"node/a", 7, x});
    write(dir / control::name_of(x),
          {static_cast<const std::byte*>(frame.data()), frame.size()});
  }
}

void write_guest(const fs::path& dir) {
  capnp::MallocMessageBuilder hello;
  auto root = hello.initRoot<wire::GuestHello>();
  root.setVersion(1);
  auto program = root.initProgram();
  program.setName("heat");
  program.setHost("host");
  program.setUser("user");
  root.initSpecification().setShare(0.5);
  write_message(dir / "hello", hello);
  capnp::MallocMessageBuilder notice;
  notice.initRoot<wire::GuestNotice>().setJournalFills(1 << 30);
  write_message(dir / "notice", notice);
  control::lease lease;
  lease.session = {1};
  lease.node = "a";
  write(dir / "ticket", guest::encode_ticket(lease));
}

void write_facts(const fs::path& to) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<wire::ModuleFacts>();
  auto kernel = root.initKernels(2)[0];
  kernel.setName("kernel");
  auto parameters = kernel.initParameters(2);
  parameters[0].setSize(8);
  parameters[1].setOffset(8);
  parameters[1].setSize(16);
  auto attribute = kernel.initAttributes(1)[0];
  attribute.setKey(CU_FUNC_ATTRIBUTE_NUM_REGS);
  attribute.setValue(32);
  auto variable = root.initGlobals(1)[0];
  variable.setName("variable");
  variable.setAddress(first_window);
  variable.setBytes(4);
  write_message(to, message);
}

std::vector<std::byte> contents_of(int file) {
  std::vector<std::byte> out(
      fs::file_size("/proc/self/fd/" + std::to_string(file)));
  if (!read_state_bytes(file, 0, out))
    throw std::runtime_error{"cannot read a state"};
  return out;
}

/// Writes a state with every kind of contents.
void write_state(const fs::path& to, bool compress) {
  auto file = std::move(*make_state_memory());
  state_writer out{file.get(), compress};
  std::vector<std::byte> some(200, std::byte{7}), zero(64);
  for (std::size_t i = 0; i < 100; ++i)
    some[i] = static_cast<std::byte>(i * 37);
  state_index index;
  index.position = 4712;
  index.calls = 17;
  for (auto* x : {&some, &zero})
    index.memory.push_back(*out.add(0x1000, *x));
  index.images.push_back({{1, 2}, some.size(), {*out.add(0, some)}});
  std::vector<std::uint64_t> message(
      call::message_words(call::stream_create{.stream = {{9}}}));
  call::encode(call::stream_create{.stream = {{9}}}, 0, message);
  index.living.emplace_back(64, message);
  index.globals.push_back({0, {3}, "x", 0x77, 8});
  index.events.emplace_back(0, event_time{{8}, 2.5, true});
  index.placed.push_back({1, {5}, {*out.add(0, some)}});
  index.lent.push_back({0, first_window, granule_bytes});
  (void)out.finish(index);
  write(to, contents_of(file.get()));
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " CORPUS_FOLDER\n";
    return 2;
  }
  fs::path to{argv[1]};
  write_log(to / "call_log");
  write_heads(to / "data_head");
  write_envelopes(to / "envelope");
  write_guest(to / "guest");
  write_facts(to / "module_facts" / "all");
  write_state(to / "state" / "plain", false);
  write_state(to / "state" / "compressed", true);
}
