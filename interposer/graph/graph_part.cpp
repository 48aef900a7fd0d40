#include "interposer/graph/graph_part.hpp"

#include "interposer/context/context_part.hpp"
#include "interposer/graph/capture.hpp"
#include "interposer/graph/conditional_launch.hpp"
#include "interposer/memory/late_copies.hpp"
#include "interposer/memory/memory_part.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/stream/stream_part.hpp"

namespace vgpu::interposer {

graph_part::graph_part(session_part& session, context_part& contexts,
                       stream_part& streams, memory_part& memory_of_all) {
  session.before_release.set([] {
    wait_for_conditional_launches();
    late_copies().wait_for_none();
  });
  contexts.at_end(context_end::launches, [](context& of) {
    forget_conditional_launches(of);
    late_copies().forget(of);
  });
  streams.capture = {.forget_stream = forget_captured,
                     .forget_event = forget_captured,
                     .refuse_stream = refuse_in_capture,
                     .refuse_event = refuse_captured};
  memory_of_all.of_graphs = {.planned = planned_allocation,
                             .free = free_graph_memory,
                             .discard = discard_graph_memory};
}

} // namespace vgpu::interposer
