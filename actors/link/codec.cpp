#include "actors/link/codec.hpp"

#include "actors/link/wire_values.hpp"

#include <kj/exception.h>

#include <exception>
#include <iterator>

namespace vgpu::control {

namespace {

using namespace wire_values;
// What stands below would hide these.
using wire_values::read;
using wire_values::write;

// -- one pair for each message ------------------------------------------------

void write(wire::Refusal::Builder to, const refusal& x) {
  to.setCode(static_cast<std::uint32_t>(x.code));
  to.setReason(to_kj(x.reason));
  to.setSession(x.session.value);
}
refusal read(wire::Refusal::Reader x) {
  return {to_result(x.getCode()), text(x.getReason()), {x.getSession()}};
}

void write(wire::Hello::Builder to, const hello& x) {
  to.setOldest(x.oldest);
  to.setNewest(x.newest);
  to.setSoftware(to_kj(x.software));
  to.setRole(static_cast<wire::Role>(x.as));
}
hello read(wire::Hello::Reader x) {
  auto as = static_cast<std::uint16_t>(x.getRole());
  if (as > static_cast<std::uint16_t>(role::command))
    throw bad_value{"an unknown role"};
  return {x.getOldest(), x.getNewest(), text(x.getSoftware()),
          static_cast<role>(as)};
}

void write(wire::Welcome::Builder to, const welcome& x) {
  to.setVersion(x.version);
  to.setSoftware(to_kj(x.software));
  to.setIncarnation(x.incarnation);
  to.setBeatEveryMs(x.beat_every_ms);
  to.setLostAfterMs(x.lost_after_ms);
  to.setTerm(x.term);
}
welcome read(wire::Welcome::Reader x) {
  return {x.getVersion(),     text(x.getSoftware()), x.getIncarnation(),
          x.getBeatEveryMs(), x.getLostAfterMs(),    x.getTerm()};
}

void write(wire::Redirect::Builder to, const redirect& x) {
  to.setLeader(to_kj(x.leader));
  to.setTerm(x.term);
}
redirect read(wire::Redirect::Reader x) {
  return {text(x.getLeader()), x.getTerm()};
}

void write(wire::RegisterNode::Builder to, const register_node& x) {
  to.setName(to_kj(x.name));
  to.setHost(to_kj(x.host));
  to.setPid(x.pid);
  write_list(to.initPgpus(count(x.pgpus.size())), x.pgpus);
  write_list(to.initSessions(count(x.sessions.size())), x.sessions);
}
register_node read(wire::RegisterNode::Reader x) {
  return {text(x.getName()), text(x.getHost()), x.getPid(),
          read_list(x.getPgpus()), read_list(x.getSessions())};
}

void write(wire::NodeBeat::Builder to, const node_beat& x) {
  to.setName(to_kj(x.name));
  to.setNumber(x.number);
  write_list(to.initSessions(count(x.sessions.size())), x.sessions);
  write_list(to.initEnded(count(x.ended.size())), x.ended);
}
node_beat read(wire::NodeBeat::Reader x) {
  return {text(x.getName()), x.getNumber(), read_list(x.getSessions()),
          read_list(x.getEnded())};
}

void write(wire::BeatAck::Builder to, const beat_ack& x) {
  to.setNumber(x.number);
  to.setIncarnation(x.incarnation);
}
beat_ack read(wire::BeatAck::Reader x) {
  return {x.getNumber(), x.getIncarnation()};
}

void write(wire::Lease::Builder to, const lease& x) {
  to.setSession(x.session.value);
  to.setVgpu(x.vgpu.value);
  to.setEpoch(x.epoch.value);
  to.setNode(to_kj(x.node));
  write(to.initWorker(), x.worker);
  to.setToken(x.token);
  to.setQuota(x.quota);
  write_list(to.initDevices(count(x.devices.size())), x.devices);
  write(to.initPgpus(count(x.pgpus.size())), x.pgpus);
  to.setProtection(to_wire(x.protection));
  to.setReason(to_kj(x.reason));
}
lease read(wire::Lease::Reader x) {
  lease out;
  out.session = {x.getSession()};
  out.vgpu = {x.getVgpu()};
  out.epoch = {x.getEpoch()};
  out.node = text(x.getNode());
  out.worker = read(x.getWorker());
  out.token = x.getToken();
  out.quota = x.getQuota();
  out.devices = read_list(x.getDevices());
  out.pgpus = read(x.getPgpus());
  out.protection = read(x.getProtection());
  out.reason = text(x.getReason());
  return out;
}

void write(wire::Acquire::Builder to, const acquire& x) {
  write(to.initSpecification(), x.specification);
  write(to.initProgram(), x.program);
  to.setWaitedMs(x.waited_ms);
}
acquire read(wire::Acquire::Reader x) {
  return {read(x.getSpecification()), read(x.getProgram()), x.getWaitedMs()};
}

void write(wire::MemoryTurns::Builder to, const memory_turns& x) {
  to.setPreempted(x.preempted);
  to.setSinceMs(x.since_ms);
  to.setLeftInMs(x.left_in_ms);
  to.setBackInMs(x.back_in_ms);
}
memory_turns read(wire::MemoryTurns::Reader x) {
  return {x.getPreempted(), x.getSinceMs(), x.getLeftInMs(), x.getBackInMs()};
}

void write(wire::Adopt::Builder to, const adopt& x) {
  to.setSession(x.session.value);
  to.setVgpu(x.vgpu.value);
  to.setEpoch(x.epoch.value);
  to.setToken(x.token);
  write(to.initSpecification(), x.specification);
  write(to.initProgram(), x.program);
  to.setNode(to_kj(x.node));
  to.setQuota(x.quota);
  to.setSuspended(x.suspended);
  to.setHeld(x.held);
  to.setAside(x.aside);
  write(to.initTurns(), x.turns);
}
adopt read(wire::Adopt::Reader x) {
  return {{x.getSession()},
          {x.getVgpu()},
          {x.getEpoch()},
          x.getToken(),
          read(x.getSpecification()),
          read(x.getProgram()),
          text(x.getNode()),
          x.getQuota(),
          x.getSuspended(),
          x.getHeld(),
          x.getAside(),
          read(x.getTurns())};
}

void write(wire::Suspect::Builder to, const suspect& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  to.setReason(to_kj(x.reason));
}
suspect read(wire::Suspect::Reader x) {
  return {{x.getSession()}, {x.getEpoch()}, text(x.getReason())};
}

void write(wire::CloseSession::Builder to, const close_session& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  to.setReason(to_kj(x.reason));
}
close_session read(wire::CloseSession::Reader x) {
  return {{x.getSession()}, {x.getEpoch()}, text(x.getReason())};
}

void write(wire::SuspendVgpu::Builder to, const suspend_vgpu& x) {
  to.setVgpu(x.vgpu.value);
  to.setHold(x.hold);
}
suspend_vgpu read(wire::SuspendVgpu::Reader x) {
  return {{x.getVgpu()}, x.getHold()};
}

void write(wire::MigrateVgpu::Builder to, const migrate_vgpu& x) {
  to.setVgpu(x.vgpu.value);
  to.setNode(to_kj(x.node));
  to.setPgpu(x.pgpu);
}
migrate_vgpu read(wire::MigrateVgpu::Reader x) {
  return {{x.getVgpu()}, text(x.getNode()), x.getPgpu()};
}

void write(wire::DrainNode::Builder to, const drain_node& x) {
  to.setNode(to_kj(x.node));
  to.setUndo(x.undo);
}
drain_node read(wire::DrainNode::Reader x) {
  return {text(x.getNode()), x.getUndo()};
}

void write(wire::PauseSession::Builder to, const pause_session& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  write(to.initLendTo(count(x.lend_to.size())), x.lend_to);
  to.setSuspend(x.suspend);
  to.setHold(x.hold);
  to.setTurnOver(x.turn_over);
}
pause_session read(wire::PauseSession::Reader x) {
  return {{x.getSession()}, {x.getEpoch()}, read(x.getLendTo()),
          x.getSuspend(),   x.getHold(),    x.getTurnOver()};
}

void write(wire::Paused::Builder to, const paused& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  to.setFailure(to_kj(x.failure));
  to.setBytes(x.bytes);
  to.setMilliseconds(x.milliseconds);
  to.setAside(x.aside);
}
paused read(wire::Paused::Reader x) {
  return {{x.getSession()}, {x.getEpoch()},      text(x.getFailure()),
          x.getBytes(),     x.getMilliseconds(), x.getAside()};
}

void write(wire::BringBack::Builder to, const bring_back& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
}
bring_back read(wire::BringBack::Reader x) {
  return {{x.getSession()}, {x.getEpoch()}};
}

void write(wire::Restored::Builder to, const restored& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  to.setBytes(x.bytes);
  to.setMilliseconds(x.milliseconds);
}
restored read(wire::Restored::Reader x) {
  return {{x.getSession()}, {x.getEpoch()}, x.getBytes(), x.getMilliseconds()};
}

void write(wire::StartWorker::Builder to, const start_worker& x) {
  to.setSession(x.session.value);
  to.setVgpu(x.vgpu.value);
  to.setEpoch(x.epoch.value);
  to.setToken(x.token);
  write(to.initPgpus(count(x.pgpus.size())), x.pgpus);
  to.setQuota(x.quota);
  to.setProtection(to_wire(x.protection));
  to.setProgram(to_kj(x.program));
  to.setShare(x.share);
  to.setLimit(x.limit);
  to.setPriority(x.priority);
  to.setFormerGaveWay(x.former_gave_way);
}
start_worker read(wire::StartWorker::Reader x) {
  return {{x.getSession()},
          {x.getVgpu()},
          {x.getEpoch()},
          x.getToken(),
          read(x.getPgpus()),
          x.getQuota(),
          read(x.getProtection()),
          text(x.getProgram()),
          x.getShare(),
          x.getLimit(),
          x.getPriority(),
          x.getFormerGaveWay()};
}

void write(wire::PrepareWorker::Builder to, const prepare_worker& x) {
  to.setSession(x.session.value);
  to.setVgpu(x.vgpu.value);
  write(to.initPgpus(count(x.pgpus.size())), x.pgpus);
  to.setQuota(x.quota);
}
prepare_worker read(wire::PrepareWorker::Reader x) {
  return {{x.getSession()}, {x.getVgpu()}, read(x.getPgpus()), x.getQuota()};
}

void write(wire::WorkerPrepared::Builder to, const worker_prepared& x) {
  to.setSession(x.session.value);
  to.setFailure(to_kj(x.failure));
}
worker_prepared read(wire::WorkerPrepared::Reader x) {
  return {{x.getSession()}, text(x.getFailure())};
}

void write(wire::WorkerStarted::Builder to, const worker_started& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  write(to.initWorker(), x.worker);
  to.setPid(x.pid);
  to.setFailure(to_kj(x.failure));
}
worker_started read(wire::WorkerStarted::Reader x) {
  return {{x.getSession()},
          {x.getEpoch()},
          read(x.getWorker()),
          x.getPid(),
          text(x.getFailure())};
}

void write(wire::WorkerExited::Builder to, const worker_exited& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  to.setHow(to_kj(x.how));
  to.setClean(x.clean);
}
worker_exited read(wire::WorkerExited::Reader x) {
  return {{x.getSession()}, {x.getEpoch()}, text(x.getHow()), x.getClean()};
}

void write(wire::StopWorker::Builder to, const stop_worker& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  to.setReason(to_kj(x.reason));
}
stop_worker read(wire::StopWorker::Reader x) {
  return {{x.getSession()}, {x.getEpoch()}, text(x.getReason())};
}

void write(wire::WorkerHello::Builder to, const worker_hello& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  write(to.initWorker(), x.worker);
  to.setFailure(to_kj(x.failure));
}
worker_hello read(wire::WorkerHello::Reader x) {
  return {{x.getSession()},
          {x.getEpoch()},
          read(x.getWorker()),
          text(x.getFailure())};
}

void write(wire::WorkerBeat::Builder to, const worker_beat& x) {
  write(to.initLoad(), x.load);
  to.setError(static_cast<std::uint32_t>(x.error));
}
worker_beat read(wire::WorkerBeat::Reader x) {
  return {read(x.getLoad()), to_result(x.getError())};
}

void write(wire::InjectFault::Builder to, const inject_fault& x) {
  to.setNode(to_kj(x.node));
  to.setPgpu(x.pgpu);
  to.setKind(to_kj(x.kind));
}
inject_fault read(wire::InjectFault::Reader x) {
  return {text(x.getNode()), x.getPgpu(), text(x.getKind())};
}

void write(wire::SetVgpu::Builder to, const set_vgpu& x) {
  to.setVgpu(x.vgpu.value);
  to.setShare(x.share);
  to.setLimit(x.limit);
  to.setMemory(x.memory);
  to.setChangePriority(x.change_priority);
  to.setPriority(x.priority);
}
set_vgpu read(wire::SetVgpu::Reader x) {
  return {{x.getVgpu()}, x.getShare(),          x.getLimit(),
          x.getMemory(), x.getChangePriority(), x.getPriority()};
}

void write(wire::SetPolicy::Builder to, const set_policy& x) {
  to.setNode(to_kj(x.node));
  to.setPgpu(x.pgpu);
  to.setPolicy(to_kj(x.policy));
  to.setQuantumUs(x.quantum_us);
}
set_policy read(wire::SetPolicy::Reader x) {
  return {text(x.getNode()), x.getPgpu(), text(x.getPolicy()),
          x.getQuantumUs()};
}

void write(wire::ResizeSession::Builder to, const resize_session& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  to.setShare(x.share);
  to.setLimit(x.limit);
  to.setPriority(x.priority);
  to.setQuota(x.quota);
}
resize_session read(wire::ResizeSession::Reader x) {
  return {{x.getSession()}, {x.getEpoch()},  x.getShare(),
          x.getLimit(),     x.getPriority(), x.getQuota()};
}

void write(wire::UsageRequest::Builder to, const usage_request& x) {
  to.setSince(x.since);
  to.setBy(to_kj(x.by));
}
usage_request read(wire::UsageRequest::Reader x) {
  return {x.getSince(), text(x.getBy())};
}

void write(wire::EventsRequest::Builder to, const events_request& x) {
  to.setAfter(x.after);
  to.setWaitMs(x.wait_ms);
}
events_request read(wire::EventsRequest::Reader x) {
  return {x.getAfter(), x.getWaitMs()};
}

void write(wire::Events::Builder to, const events& x) {
  write_list(to.initEvents(count(x.list.size())), x.list);
}
events read(wire::Events::Reader x) {
  return {read_list(x.getEvents())};
}

// -- the envelope -------------------------------------------------------------

/// Puts each kind of body into its member of the envelope's union.
struct body_writer {
  wire::Envelope::Builder to;

  void operator()(const refusal& x) { write(to.initRefusal(), x); }
  void operator()(const hello& x) { write(to.initHello(), x); }
  void operator()(const welcome& x) { write(to.initWelcome(), x); }
  void operator()(const register_node& x) { write(to.initRegisterNode(), x); }
  void operator()(const node_beat& x) { write(to.initNodeBeat(), x); }
  void operator()(const worker_started& x) { write(to.initWorkerStarted(), x); }
  void operator()(const worker_exited& x) { write(to.initWorkerExited(), x); }
  void operator()(const beat_ack& x) { write(to.initBeatAck(), x); }
  void operator()(const start_worker& x) { write(to.initStartWorker(), x); }
  void operator()(const stop_worker& x) { write(to.initStopWorker(), x); }
  void operator()(const acquire& x) { write(to.initAcquire(), x); }
  void operator()(const adopt& x) { write(to.initAdopt(), x); }
  void operator()(const suspect& x) { write(to.initSuspect(), x); }
  void operator()(const close_session& x) { write(to.initCloseSession(), x); }
  void operator()(const event& x) { write(to.initReport(), x); }
  void operator()(const lease& x) { write(to.initLease(), x); }
  void operator()(const worker_hello& x) { write(to.initWorkerHello(), x); }
  void operator()(const worker_beat& x) { write(to.initWorkerBeat(), x); }
  void operator()(const inject_fault& x) { write(to.initInjectFault(), x); }
  void operator()(const status_request&) { to.setStatusRequest(); }
  void operator()(const status_text& x) { to.setStatus(to_kj(x.json)); }
  void operator()(const events_request& x) { write(to.initEventsRequest(), x); }
  void operator()(const events& x) { write(to.initEvents(), x); }
  void operator()(const shutdown&) { to.setShutdown(); }
  void operator()(const done&) { to.setDone(); }
  void operator()(const set_vgpu& x) { write(to.initSetVgpu(), x); }
  void operator()(const set_policy& x) { write(to.initSetPolicy(), x); }
  void operator()(const resize_session& x) { write(to.initResizeSession(), x); }
  void operator()(const suspend_vgpu& x) { write(to.initSuspendVgpu(), x); }
  void operator()(const resume_vgpu& x) { to.setResumeVgpu(x.vgpu.value); }
  void operator()(const migrate_vgpu& x) { write(to.initMigrateVgpu(), x); }
  void operator()(const drain_node& x) { write(to.initDrainNode(), x); }
  void operator()(const pause_session& x) { write(to.initPauseSession(), x); }
  void operator()(const paused& x) { write(to.initPaused(), x); }
  void operator()(const wake_session& x) { to.setWakeSession(x.session.value); }
  void operator()(const restored& x) { write(to.initRestored(), x); }
  void operator()(const usage_request& x) { write(to.initUsageRequest(), x); }
  void operator()(const prepare_worker& x) { write(to.initPrepareWorker(), x); }
  void operator()(const worker_prepared& x) {
    write(to.initWorkerPrepared(), x);
  }
  void operator()(const redirect& x) { write(to.initRedirect(), x); }
  void operator()(const bring_back& x) { write(to.initBringBack(), x); }
};

body read_body(wire::Envelope::Reader x) {
  switch (x.which()) {
  case wire::Envelope::REFUSAL:
    return read(x.getRefusal());
  case wire::Envelope::HELLO:
    return read(x.getHello());
  case wire::Envelope::WELCOME:
    return read(x.getWelcome());
  case wire::Envelope::REGISTER_NODE:
    return read(x.getRegisterNode());
  case wire::Envelope::NODE_BEAT:
    return read(x.getNodeBeat());
  case wire::Envelope::WORKER_STARTED:
    return read(x.getWorkerStarted());
  case wire::Envelope::WORKER_EXITED:
    return read(x.getWorkerExited());
  case wire::Envelope::BEAT_ACK:
    return read(x.getBeatAck());
  case wire::Envelope::START_WORKER:
    return read(x.getStartWorker());
  case wire::Envelope::STOP_WORKER:
    return read(x.getStopWorker());
  case wire::Envelope::ACQUIRE:
    return read(x.getAcquire());
  case wire::Envelope::ADOPT:
    return read(x.getAdopt());
  case wire::Envelope::SUSPECT:
    return read(x.getSuspect());
  case wire::Envelope::CLOSE_SESSION:
    return read(x.getCloseSession());
  case wire::Envelope::REPORT:
    return read(x.getReport());
  case wire::Envelope::LEASE:
    return read(x.getLease());
  case wire::Envelope::WORKER_HELLO:
    return read(x.getWorkerHello());
  case wire::Envelope::WORKER_BEAT:
    return read(x.getWorkerBeat());
  case wire::Envelope::INJECT_FAULT:
    return read(x.getInjectFault());
  case wire::Envelope::STATUS_REQUEST:
    return status_request{};
  case wire::Envelope::STATUS:
    return status_text{text(x.getStatus(), largest_frame)};
  case wire::Envelope::EVENTS_REQUEST:
    return read(x.getEventsRequest());
  case wire::Envelope::EVENTS:
    return read(x.getEvents());
  case wire::Envelope::SHUTDOWN:
    return shutdown{};
  case wire::Envelope::DONE:
    return done{};
  case wire::Envelope::SET_VGPU:
    return read(x.getSetVgpu());
  case wire::Envelope::SET_POLICY:
    return read(x.getSetPolicy());
  case wire::Envelope::RESIZE_SESSION:
    return read(x.getResizeSession());
  case wire::Envelope::SUSPEND_VGPU:
    return read(x.getSuspendVgpu());
  case wire::Envelope::RESUME_VGPU:
    return resume_vgpu{{x.getResumeVgpu()}};
  case wire::Envelope::MIGRATE_VGPU:
    return read(x.getMigrateVgpu());
  case wire::Envelope::DRAIN_NODE:
    return read(x.getDrainNode());
  case wire::Envelope::PAUSE_SESSION:
    return read(x.getPauseSession());
  case wire::Envelope::PAUSED:
    return read(x.getPaused());
  case wire::Envelope::WAKE_SESSION:
    return wake_session{{x.getWakeSession()}};
  case wire::Envelope::RESTORED:
    return read(x.getRestored());
  case wire::Envelope::USAGE_REQUEST:
    return read(x.getUsageRequest());
  case wire::Envelope::PREPARE_WORKER:
    return read(x.getPrepareWorker());
  case wire::Envelope::WORKER_PREPARED:
    return read(x.getWorkerPrepared());
  case wire::Envelope::REDIRECT:
    return read(x.getRedirect());
  case wire::Envelope::BRING_BACK:
    return read(x.getBringBack());
  }
  throw bad_value{"a kind of message (" +
                  std::to_string(static_cast<unsigned>(x.which())) +
                  ") that this version does not know"};
}

} // namespace

const char* name_of(const body& what) noexcept {
  static constexpr const char* names[] = {
      "refusal",      "hello",         "welcome",        "registerNode",
      "nodeBeat",     "workerStarted", "workerExited",   "beatAck",
      "startWorker",  "stopWorker",    "acquire",        "adopt",
      "suspect",      "closeSession",  "report",         "lease",
      "workerHello",  "workerBeat",    "injectFault",    "statusRequest",
      "status",       "eventsRequest", "events",         "shutdown",
      "done",         "setVgpu",       "setPolicy",      "resizeSession",
      "suspendVgpu",  "resumeVgpu",    "migrateVgpu",    "drainNode",
      "pauseSession", "paused",        "wakeSession",    "restored",
      "usageRequest", "prepareWorker", "workerPrepared", "redirect",
      "bringBack"};
  static_assert(std::size(names) == std::variant_size_v<body>);
  return names[what.index()];
}

zmq::message_t encode(const envelope& what) {
  capnp::word scratch[128] = {};
  capnp::MallocMessageBuilder message{scratch};
  auto to = message.initRoot<wire::Envelope>();
  to.setFrom(to_kj(what.from));
  to.setRequest(what.request);
  to.setVersion(what.version);
  std::visit(body_writer{to}, what.body);
  return to_frame(message);
}

std::variant<envelope, unreadable> decode(const parcel& in) {
  std::uint64_t request = 0;
  try {
    if (in.words().size() == 0)
      return unreadable{"a frame that holds no message"};
    if (in.bulk().size() != 0)
      return unreadable{"a payload where none belongs"};
    capnp::FlatArrayMessageReader reader{in.words(), read_limits(in)};
    auto from = reader.getRoot<wire::Envelope>();
    request = from.getRequest();
    return envelope{text(from.getFrom(), 256), request, read_body(from),
                    from.getVersion()};
  } catch (const kj::Exception& e) {
    return unreadable{e.getDescription().cStr(), request};
  } catch (const std::exception& e) {
    return unreadable{e.what(), request};
  }
}

} // namespace vgpu::control
