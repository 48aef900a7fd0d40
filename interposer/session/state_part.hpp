// The base of every folder's part of the driver's state.
#pragma once

namespace vgpu::interposer {

/// Holds the tables and hooks of one folder. driver_state
/// (api/driver_state.hpp) makes the parts in the order of the folders, one of
/// each in a process, and never destroys them. get() is a load of a plain
/// pointer: entry points that work before cuInit make the state first, and the
/// others do nothing before cuInit has made it.
template <class Part>
class state_part {
public:
  state_part(const state_part&) = delete;
  state_part& operator=(const state_part&) = delete;

  /// Returns the process's own part. Precondition: the driver's state is made.
  static Part& get() noexcept { return *part_; }

protected:
  state_part() noexcept { part_ = static_cast<Part*>(this); }
  ~state_part() = default;

private:
  inline static Part* part_ = nullptr;
};

} // namespace vgpu::interposer
