#include "policies/placement/placement_index.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <limits>

namespace vgpu::policy {

namespace {

/// Says for a person what is wrong with an answer. Empty: nothing is.
std::string fault_of(const node_view* node, const place& where,
                     const demand& what) {
  if (node == nullptr)
    return "there is no such node";
  if (!node->alive)
    return "that node accepts no sessions now";
  auto distinct =
      std::set<std::uint32_t>{where.pgpus.begin(), where.pgpus.end()};
  if (distinct.size() != where.pgpus.size() || distinct.size() != what.gpus)
    return "the request is for " + std::to_string(what.gpus) +
           " different GPUs";
  for (auto ordinal : distinct) {
    auto is_it = [&](const auto& x) { return x.ordinal == ordinal; };
    auto i = std::find_if(node->pgpus.begin(), node->pgpus.end(), is_it);
    auto name = "pGPU " + std::to_string(ordinal);
    if (i == node->pgpus.end())
      return "that node has no " + name;
    if (!may_take(*node, *i, what))
      return name + " is not healthy, lacks the memory, or does not meet the "
                    "constraints";
  }
  return {};
}

} // namespace

placement_index::placement_index(cluster_view cluster, placement_strategy how,
                                 std::shared_ptr<placement_policy> own)
    : cluster_(std::move(cluster)), own_(std::move(own)),
      sessions_(cluster_.nodes.size(), 0) {
  shelves_.push_back({how, {}});
  if (how == placement_strategy::bin_pack)
    shelves_.push_back({placement_strategy::least_loaded, {}});
  for (std::size_t n = 0; n < cluster_.nodes.size(); ++n) {
    const auto& x = cluster_.nodes[n];
    alive_ += x.alive ? 1 : 0;
    by_name_[x.name] = n;
    by_host_[x.host].push_back(n);
    for (const auto& each : x.pgpus)
      sessions_[n] += each.sessions;
    for_each(n, nullptr, [](auto& to, const key& at) { to.insert(at); });
    for (std::size_t p = 0; p < x.pgpus.size(); ++p)
      if (is_offered({n, p}))
        by_free_.insert(free_key({n, p}));
  }
}

std::size_t placement_index::class_of(std::uint64_t free) {
  if (free < 4)
    return static_cast<std::size_t>(free);
  auto power = static_cast<std::size_t>(std::bit_width(free)) - 1;
  return power * 4 + static_cast<std::size_t>((free >> (power - 2)) & 3);
}

std::uint64_t placement_index::end_of_class(std::uint64_t free) {
  if (free < 4)
    return free + 1;
  auto step = std::bit_width(free) - 3; // a quarter of its power of two
  return ((free >> step) + 1) << step;
}

placement_index::key placement_index::key_at(const shelf& in,
                                             const spot& x) const {
  return {key_of(in.how, sessions_[x.first], pgpu(x)), node(x).name,
          pgpu(x).ordinal, x};
}

/// Returns a key that is smaller the more memory is free.
std::pair<std::uint64_t, placement_index::spot>
placement_index::free_key(const spot& x) const {
  return {~free_with_nothing_kept(x.first, x.second), x};
}

template <class F>
void placement_index::for_each(std::size_t n,
                               const std::vector<std::uint32_t>* only, F f) {
  const auto& of = cluster_.nodes[n];
  // Under `spread`, a new session on one pGPU changes the order of all on its
  // node.
  if (shelves_.front().how == placement_strategy::spread)
    only = nullptr;
  for (std::size_t p = 0; p < of.pgpus.size(); ++p) {
    const auto& each = of.pgpus[p];
    auto meant = only == nullptr || std::find(only->begin(), only->end(),
                                              each.ordinal) != only->end();
    if (meant && of.alive && each.healthy)
      for (auto& in : shelves_)
        f(in.by_free[class_of(free_of(each))], key_at(in, {n, p}));
  }
}

template <class F>
void placement_index::for_spots(const place& where, F f) const {
  auto i = by_name_.find(where.node);
  if (i == by_name_.end())
    return;
  const auto& pgpus = cluster_.nodes[i->second].pgpus;
  for (std::size_t p = 0; p < pgpus.size(); ++p)
    if (std::find(where.pgpus.begin(), where.pgpus.end(), pgpus[p].ordinal) !=
        where.pgpus.end())
      f(spot{i->second, p});
}

template <class F>
void placement_index::change(const place& where, F f) {
  auto i = by_name_.find(where.node);
  if (i == by_name_.end())
    return;
  for_each(i->second, &where.pgpus,
           [](auto& from, const key& x) { from.erase(x); });
  for_spots(where, [&](const spot& x) {
    f(cluster_.nodes[x.first].pgpus[x.second], x);
  });
  for_each(i->second, &where.pgpus,
           [](auto& to, const key& x) { to.insert(x); });
}

template <class F>
void placement_index::refile(const place& where, F f) {
  for_spots(where, [&](const spot& x) { by_free_.erase(free_key(x)); });
  change(where, f);
  for_spots(where, [&](const spot& x) {
    if (is_offered(x))
      by_free_.insert(free_key(x));
  });
}

void placement_index::take(const place& where, const demand& what) {
  refile(where, [&](pgpu_view& x, const spot& at) {
    x.reserved += what.memory;
    x.shares += counted_share(what.share);
    ++x.sessions;
    ++sessions_[at.first];
  });
}

void placement_index::give(const place& where, const demand& what) {
  refile(where, [&](pgpu_view& x, const spot& at) {
    x.reserved -= what.memory;
    x.shares -= counted_share(what.share);
    --x.sessions;
    --sessions_[at.first];
  });
}

// -- what is kept -------------------------------------------------------------

void placement_index::keep(const place& where) {
  change(where, [&](pgpu_view& x, const spot& at) {
    auto more = free_of(x);
    kept_[at] += more;
    x.reserved += more;
  });
}

void placement_index::release_kept() {
  for (const auto& [at, bytes] : kept_) {
    // Clang's lambdas cannot capture structured bindings.
    auto more = bytes;
    change({node(at).name, {pgpu(at).ordinal}},
           [more](pgpu_view& x, const spot&) { x.reserved -= more; });
  }
  kept_.clear();
}

node_view placement_index::with_nothing_kept(std::size_t n) const {
  auto out = cluster_.nodes[n];
  for (auto i = kept_.lower_bound({n, 0});
       i != kept_.end() && i->first.first == n; ++i)
    out.pgpus[i->first.second].reserved -= i->second;
  return out;
}

const node_view* placement_index::with_nothing_kept(
    const std::string& name, std::map<std::string, node_view>& copies) const {
  auto i = by_name_.find(name);
  if (i == by_name_.end())
    return nullptr;
  auto n = i->second;
  auto kept = kept_.lower_bound({n, 0});
  if (kept == kept_.end() || kept->first.first != n)
    return &cluster_.nodes[n];
  auto copy = copies.find(name);
  if (copy == copies.end())
    copy = copies.emplace(name, with_nothing_kept(n)).first;
  return &copy->second;
}

std::uint64_t placement_index::free_with_nothing_kept(std::size_t n,
                                                      std::size_t p) const {
  auto kept = kept_.find({n, p});
  return free_of(pgpu({n, p})) + (kept == kept_.end() ? 0 : kept->second);
}

/// Returns whether a demand for one pGPU has room there, with nothing kept.
bool placement_index::has_room_at(const spot& at, const demand& what) const {
  auto emptier = pgpu(at);
  emptier.reserved =
      emptier.memory - free_with_nothing_kept(at.first, at.second);
  return may_take(node(at), emptier, what);
}

bool placement_index::has_room_on(std::size_t n, const demand& what) const {
  auto emptier = with_nothing_kept(n);
  const auto* one = &emptier;
  return best_place({&one, 1}, what, placement_strategy::least_loaded)
      .has_value();
}

bool placement_index::has_room(const demand& what) const {
  for (const auto& [not_free, at] : by_free_) {
    if (~not_free < what.memory)
      return false;
    if (what.gpus == 1 ? has_room_at(at, what) : has_room_on(at.first, what))
      return true;
  }
  return false;
}

std::optional<place> placement_index::place_to_keep(const demand& what) {
  if (what.gpus != 1) {
    auto kept = kept_;
    release_kept();
    auto out = policy::place_to_keep(cluster_, what);
    for (const auto& [at, bytes] : kept)
      keep({node(at).name, {pgpu(at).ordinal}});
    return out;
  }
  auto anywhere = what;
  anywhere.memory = 0;
  std::optional<spot> best;
  for (const auto& [not_free, x] : by_free_) {
    auto fits = ~not_free >= what.memory;
    // A pGPU with room lacks nothing, so the first of those by name is the
    // answer. If there is none, it is the one that lacks least.
    if (best && !fits)
      break;
    if (what.memory > pgpu(x).memory || !may_take(node(x), pgpu(x), anywhere))
      continue;
    best = best ? std::min(*best, x) : x;
    if (!fits)
      break;
  }
  if (!best)
    return std::nullopt;
  return place{node(*best).name, {pgpu(*best).ordinal}};
}

// -- choosing -----------------------------------------------------------------

std::vector<const node_view*>
placement_index::nodes_of(const std::vector<place>& x) const {
  std::vector<const node_view*> out;
  for (const auto& each : x)
    if (auto i = by_name_.find(each.node); i != by_name_.end())
      out.push_back(&cluster_.nodes[i->second]);
  return out;
}

std::optional<std::vector<const node_view*>>
placement_index::named_by(const demand& what) const {
  if (!what.node.empty())
    return nodes_of({place{what.node, {}}});
  if (what.beside_somebody)
    return nodes_of(what.beside);
  if (what.where != demand::locality::local_only)
    return std::nullopt;
  std::vector<const node_view*> out;
  if (auto i = by_host_.find(what.host); i != by_host_.end())
    for (auto n : i->second)
      out.push_back(&cluster_.nodes[n]);
  return out;
}

/// Returns the best place if it is one of those, which are preferred to all
/// others.
placement_index::maybe placement_index::near(const std::vector<place>& those,
                                             const demand& what) const {
  if (those.empty())
    return std::nullopt;
  auto got = best_place(nodes_of(those), what, shelves_.front().how);
  auto is_there = [&](const place& x) {
    return x.node == got->node &&
           std::count(x.pgpus.begin(), x.pgpus.end(), got->pgpus.front()) != 0;
  };
  return got && std::any_of(those.begin(), those.end(), is_there)
             ? got
             : std::nullopt;
}

placement_index::found placement_index::best_on_host(const demand& what) const {
  auto here = by_host_.find(what.host);
  if (what.where == demand::locality::any || here == by_host_.end())
    return std::nullopt;
  for (const auto& in : shelves_) {
    found best;
    for (auto n : here->second)
      for (std::size_t p = 0; p < cluster_.nodes[n].pgpus.size(); ++p) {
        const auto& each = cluster_.nodes[n].pgpus[p];
        if (!may_take(cluster_.nodes[n], each, what) ||
            is_over(in.how, each, what))
          continue;
        if (auto rated = key_at(in, {n, p}); !best || rated < *best)
          best = rated;
      }
    if (best)
      return best;
  }
  return std::nullopt;
}

/// Returns the first pGPU with room in a class of free memory, if it comes
/// before `best`.
placement_index::found placement_index::first_fit(const std::set<key>& among,
                                                  const shelf& in,
                                                  const demand& what,
                                                  const found& best) const {
  auto i = among.begin();
  if (in.how == placement_strategy::bin_pack) {
    // All earlier pGPUs have too much work for this demand.
    constexpr double rounding = 1e-8;
    key from{};
    std::get<0>(from).rank = what.share - 1 - rounding;
    std::get<0>(from).shares = -std::numeric_limits<double>::infinity();
    i = among.lower_bound(from);
  }
  for (; i != among.end() && (!best || *i < *best); ++i) {
    const auto& at = std::get<spot>(*i);
    if (may_take(node(at), pgpu(at), what) && !is_over(in.how, pgpu(at), what))
      return *i;
  }
  return std::nullopt;
}

/// Returns the best pGPU of the last class that has the memory. It sets `all`
/// if they were few enough to compare them directly, rather than to search all
/// that may come before.
placement_index::found placement_index::few_in_last(const shelf& in,
                                                    const demand& what,
                                                    bool& all) const {
  constexpr auto most = 32;
  found best;
  auto from = by_free_.lower_bound({~(end_of_class(what.memory) - 1), {}});
  for (auto looked = 0; from != by_free_.end() && ~from->first >= what.memory;
       ++from, ++looked) {
    if (looked == most)
      return std::nullopt;
    const auto& at = from->second;
    if (!may_take(node(at), pgpu(at), what) || is_over(in.how, pgpu(at), what))
      continue;
    if (auto rated = key_at(in, at); !best || rated < *best)
      best = rated;
  }
  all = true;
  return best;
}

placement_index::found placement_index::best_in(const shelf& in,
                                                const demand& what) const {
  found best;
  // The search begins at the top, where every pGPU has the memory. In the last
  // class not all have, so it is searched only for better ones.
  auto least = class_of(what.memory);
  for (auto c = classes; c-- > least + 1;)
    if (auto got = first_fit(in.by_free[c], in, what, best))
      best = got;
  bool all = false;
  found few;
  // A demand for no memory may have a kept place too.
  if (what.memory != 0)
    few = few_in_last(in, what, all);
  if (!all)
    few = first_fit(in.by_free[least], in, what, best);
  if (few && (!best || *few < *best))
    best = few;
  return best;
}

placement_index::maybe placement_index::choose_one(const demand& what) const {
  if (!what.failing.empty()) {
    // The first try avoids the places where the session failed. If none is
    // left, it has failed everywhere.
    auto elsewhere = what;
    elsewhere.apart.insert(elsewhere.apart.end(), what.failing.begin(),
                           what.failing.end());
    elsewhere.failing.clear();
    if (auto got = choose_one(elsewhere))
      return got;
    elsewhere.apart = what.apart;
    return choose_one(elsewhere);
  }
  if (!what.previous.node.empty())
    if (auto got = near({what.previous}, what))
      return got;
  if (auto got = near(what.affinity, what))
    return got;
  auto best = best_on_host(what);
  for (auto in = shelves_.begin(); !best && in != shelves_.end(); ++in)
    best = best_in(*in, what);
  if (!best)
    return std::nullopt;
  auto where = std::get<spot>(*best);
  return place{node(where).name, {pgpu(where).ordinal}};
}

std::variant<place, no_place>
placement_index::choose(const demand& what) const {
  if (own_)
    return ask_own(what);
  auto how = shelves_.front().how;
  maybe got;
  if (auto named = named_by(what))
    got = best_place(*named, what, how);
  else if (what.gpus == 1)
    got = choose_one(what);
  else
    return choose_place(cluster_, what, how);
  if (got)
    return std::move(*got);
  return why_none(what, alive_);
}

std::variant<place, no_place>
placement_index::ask_own(const demand& what) const {
  try {
    auto got = own_->choose(cluster_, what);
    if (!got)
      return why_none(what, alive_);
    auto i = by_name_.find(got->node);
    auto wrong = fault_of(
        i == by_name_.end() ? nullptr : &cluster_.nodes[i->second], *got, what);
    if (wrong.empty())
      return std::move(*got);
    return no_place{"the placement policy named node '" + got->node +
                    "': " + wrong};
  } catch (const std::exception& e) {
    return no_place{std::string{"the placement policy failed: "} + e.what()};
  } catch (...) {
    return no_place{"the placement policy failed with no std::exception"};
  }
}

} // namespace vgpu::policy
