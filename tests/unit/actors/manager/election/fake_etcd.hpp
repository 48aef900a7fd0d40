// An etcd on the test's clock, which fails as the test says.
#pragma once

#include "actors/manager/election/etcd_access.hpp"
#include "policies/placement/views.hpp"

#include <functional>
#include <map>
#include <memory>

namespace vgpu::test {

class fake_etcd {
public:
  using time_point = policy::time_point;

  /// Requests are not carried out or answered.
  bool away = false;
  /// Requests are carried out, but not answered.
  bool deaf = false;
  /// Records are refused.
  bool full = false;

  /// Carries out a request. Returns nothing where no answer comes.
  std::optional<etcd::answer> ask(const etcd::question& what, time_point now) {
    if (away)
      return std::nullopt;
    expire(now);
    now_ = now;
    auto out = std::visit([this](const auto& x) { return handle(x); }, what);
    return deaf ? std::nullopt : std::optional{std::move(out)};
  }

  const std::optional<etcd::leader>& leader(time_point now) {
    expire(now);
    return who_;
  }
  etcd::record& kept() { return kept_; }
  std::size_t leases(time_point now) {
    expire(now);
    return until_.size();
  }

  /// Makes another candidate the leader, in the next term.
  void seize(time_point now) {
    expire(now);
    kept_.term += 1;
    kept_.numbers += 10'000;
    ++revision_;
    who_ = etcd::leader{"tcp://rival", kept_.term};
    holder_ = ++last_lease_;
    until_[holder_] = now + std::chrono::hours{1};
  }
  /// Ends that candidate's lead.
  void release() {
    who_.reset();
    until_.erase(std::exchange(holder_, 0));
  }

private:
  void expire(time_point now) {
    std::erase_if(until_, [&](const auto& x) { return x.second <= now; });
    if (!until_.contains(holder_))
      who_.reset();
  }

  etcd::answer handle(const etcd::look&) {
    return etcd::seen{who_, kept_, revision_};
  }
  etcd::answer handle(const etcd::grant& x) {
    until_[++last_lease_] = now_ + x.length;
    length_ = x.length;
    return etcd::granted{last_lease_, x.length};
  }
  etcd::answer handle(const etcd::take& x) {
    if (!until_.contains(x.lease))
      return etcd::failed{"no such lease"};
    if (who_ || revision_ != x.revision)
      return etcd::taken{false};
    who_ = x.who;
    holder_ = x.lease;
    kept_ = x.next;
    ++revision_;
    return etcd::taken{true};
  }
  etcd::answer handle(const etcd::renew& x) {
    auto i = until_.find(x.lease);
    if (i == until_.end())
      return etcd::renewed{};
    i->second = now_ + length_;
    return etcd::renewed{length_};
  }
  etcd::answer handle(const etcd::keep& x) {
    if (full)
      return etcd::failed{"no space"};
    if (!who_ || holder_ != x.lease)
      return etcd::kept{false};
    kept_ = x.what;
    ++revision_;
    return etcd::kept{true};
  }
  etcd::answer handle(const etcd::revoke& x) {
    until_.erase(x.lease);
    if (x.lease == holder_)
      who_.reset();
    return etcd::revoked{};
  }

  std::map<std::int64_t, time_point> until_; // the ends of leases
  std::int64_t last_lease_ = 0;
  std::int64_t holder_ = 0;
  std::optional<etcd::leader> who_;
  etcd::record kept_;
  std::int64_t revision_ = 0;
  std::chrono::seconds length_{0};
  time_point now_;
};

/// For managers: answers every request at once.
class fake_access final : public etcd_access {
public:
  fake_access(std::shared_ptr<fake_etcd> etcd,
              std::function<policy::time_point()> clock)
      : etcd_(std::move(etcd)), clock_(std::move(clock)) {}

  void ask(std::uint64_t number, etcd::question what, std::chrono::milliseconds,
           etcd_listener listener) override {
    if (auto answer = etcd_->ask(what, clock_()))
      caf::anon_send(listener, std::make_shared<const etcd_answer>(
                                   etcd_answer{number, std::move(*answer)}));
  }

private:
  std::shared_ptr<fake_etcd> etcd_;
  std::function<policy::time_point()> clock_;
};

} // namespace vgpu::test
