#include "actors/manager/status_writer.hpp"

#include "actors/manager/status_report.hpp"

#include <memory>
#include <utility>

namespace vgpu {

status_writer_actor::behavior_type
status_writer(status_writer_actor::pointer self, link_actor link) {
  return {
      [self, link = std::move(link)](const status_order& x) {
        self->send(link, std::make_shared<const outgoing>(outgoing{
                             x.peer,
                             {"manager", x.request,
                              control::status_text{to_json(*x.view)}}}));
      },
      [](const metrics_order& x) -> metrics_ptr {
        return std::make_shared<const metrics_snapshot>(
            metrics_snapshot{to_json(*x.view), x.events, x.usage});
      },
  };
}

} // namespace vgpu
