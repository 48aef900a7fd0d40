#include "actors/node/node_usage.hpp"

#include "actors/link/log.hpp"
#include "actors/records/usage.hpp"

#include <algorithm>
#include <utility>

namespace vgpu {

std::shared_ptr<usage_page> add_account(child_spec& to, session_id session) {
  auto made = usage_page::create();
  if (!made) {
    spdlog::error(
        "session {} is charged only for the use that its worker reports, "
        "because it has no account in memory: {}",
        session.value, made.why().what);
    return nullptr;
  }
  std::shared_ptr<usage_page> account = std::move(*made);
  to.argv.insert(to.argv.end(), {"--usage", std::to_string(account->fd())});
  to.descriptors.push_back(account->fd());
  to.keeps = std::make_shared<
      std::pair<std::shared_ptr<const void>, std::shared_ptr<usage_page>>>(
      to.keeps, account);
  return account;
}

control::session_load load_of(const supervisor_state::worker& x) {
  auto out = x.load;
  out.session = x.order.session;
  out.epoch = x.order.epoch;
  if (x.account)
    out.usage = later(out.usage, x.account->read());
  for (const auto& [ordinal, grant] : x.grants)
    if (grant.board && grant.seat != policy::share_table::nobody)
      out.turns += grant.board->look(grant.seat).turns;
  return out;
}

void note_ended(supervisor_state& st, const supervisor_state::worker& x) {
  auto last = load_of(x);
  if (last.usage == control::usage{})
    return;
  if (st.ended.size() == supervisor_state::most_last_accounts) {
    spdlog::error("the manager has been away for too long: the last use of "
                  "session {} is not charged",
                  st.ended.front().load.session.value);
    st.ended.pop_front();
  }
  st.ended.push_back({last, 0});
}

std::vector<control::session_load> last_accounts(supervisor_state& st) {
  constexpr std::size_t at_once = 1'024;
  std::vector<control::session_load> out;
  for (auto i = 0u; i < std::min(at_once, st.ended.size()); ++i) {
    auto& [load, beat] = st.ended[i];
    beat = beat == 0 ? st.beats : beat;
    out.push_back(load);
  }
  return out;
}

void drop_last_accounts(supervisor_state& st, std::uint64_t beat) {
  std::erase_if(st.ended, [beat](const auto& x) {
    return x.beat != 0 && x.beat <= beat;
  });
}

} // namespace vgpu
