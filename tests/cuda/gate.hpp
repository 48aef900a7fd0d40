// A host function that holds a stream up, to see which calls wait for the
// stream.
#pragma once

#include "check.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

/// Holds up streams until it is opened.
class gate {
public:
  /// Closes the gate, and lets the stream come to a host function that waits
  /// for it.
  void close(cudaStream_t in) {
    {
      std::lock_guard guard{lock_};
      open_ = false;
    }
    CHECK(cudaLaunchHostFunc(in, wait, this));
  }
  void open() {
    std::lock_guard guard{lock_};
    open_ = true;
    changed_.notify_all();
  }
  bool is_open() {
    std::lock_guard guard{lock_};
    return open_;
  }
  /// Runs a call, and opens the gate meanwhile where the call takes longer than
  /// `patience`. Returns whether the call returned before that.
  template <class Call>
  bool is_returned_from(std::chrono::milliseconds patience, const Call& call) {
    auto returned = false;
    auto opened = false;
    std::thread opener{[&] {
      std::unique_lock guard{lock_};
      if (changed_.wait_for(guard, patience, [&] { return returned; }))
        return;
      open_ = opened = true;
      changed_.notify_all();
    }};
    call();
    {
      std::lock_guard guard{lock_};
      returned = true;
      changed_.notify_all();
    }
    opener.join();
    return !opened;
  }

private:
  static void CUDART_CB wait(void* self) {
    auto* x = static_cast<gate*>(self);
    std::unique_lock guard{x->lock_};
    x->changed_.wait(guard, [&] { return x->open_; });
  }

  std::mutex lock_;
  std::condition_variable changed_;
  bool open_ = true;
};

/// Says what a call does while an earlier host function holds up the stream.
enum class does {
  returns,
  waits,
  either, ///< drivers may choose
};

/// Ends the program with 1 unless the call does what is expected. Leaves the
/// gate closed where it returned. How fast the machine is changes nothing: a
/// call that is to wait may take as long as it likes, and one that is to return
/// may take ten seconds.
template <class Call>
void expect(gate& in, does what, const char* name, const Call& call) {
  using namespace std::chrono_literals;
  auto returned = in.is_returned_from(what == does::returns ? 10s : 10ms, call);
  auto right = what == does::either || returned == (what == does::returns);
  if (right)
    return;
  std::printf("%s: %s, expected that it %s\n", name,
              returned ? "returned" : "waited",
              what == does::returns ? "returns" : "waits");
  in.open(); // A driver may wait for the stream at exit.
  std::exit(1);
}
