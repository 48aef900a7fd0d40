// Sessions that use a device at the same time, as each by itself leaves much of
// it idle: floods of short kernels, which take longer to launch than to run,
// and copies beside kernels.
#pragma once

#include "policies/compute/share.hpp"

namespace vgpu::policy {

// What a piece of work takes alone is known from turns. If sessions that are
// let in together get more of it done in a second than takes a second alone,
// that is more than turns could give them; it is tried now and then, and goes
// on for as long as it is so. What is charged then is what work takes alone,
// and not how long it took among others'. Whoever gets ahead of another by that
// waits, but only for who is slower than alone and has nothing to do meanwhile
// but to wait for the device: who is not could do no more, or is held up by its
// host, and is owed nothing.

/// Whether sessions are let in together now.
bool together(const share_table& table);

/// Whether the seat may bring work now. Only where together().
bool may_join(share_table& table, std::int32_t seat, share_ns now);

/// See charge().
void note_done(share_table& table, std::int32_t seat,
               const share_work& predicted, const share_work& took,
               share_ns now);

/// Lets sessions in together from now on, if it is time to try, or to go on
/// with that. When no turn is under way.
bool try_concurrent(share_table& table, share_ns now);
/// Turns from now on: there is work of which is not known what it takes.
void part(share_table& table);
/// The same, as who sits there, or by which rules, has changed.
void part_anew(share_table& table);

} // namespace vgpu::policy
