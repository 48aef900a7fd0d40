// Memory that a program places by itself, lent and borrowed by name: what a
// worker does with the calls, including those that no honest program makes. A
// session borrows from itself here, which workers allow.
#include "tests/unit/actors/session_fixture.hpp"

#include "actors/lend/share_broker.hpp"
#include "actors/worker/session/answers.hpp"

#include <optional>

namespace vgpu {

namespace {

constexpr share_secret placed_secret{0x7365'6372'6574'2d61, 0x6f77'6e65'64};
constexpr std::uint64_t placed_serial = 77;
constexpr memory_id lent{1}, borrowed{2};

/// Keeps the last answer.
class last_answer final : public unheard {
public:
  struct told {
    CUresult code = CUDA_SUCCESS;
    std::uint64_t value = 0;
  };
  std::optional<told> last;

  bool wanted(const waiter&) const override { return true; }
  void answer(const waiter&, CUresult code, std::uint64_t value) override {
    last = told{code, value};
  }
};

/// Another session's worker, which lends memory.
struct lender {
  static constexpr auto bytes = 3 * granule_bytes;
  share_secret secret{0x6c65'6e64'6572, next_low()};
  std::unique_ptr<share_broker> broker = std::move(*share_broker::open(secret));

  static std::uint64_t next_low() {
    static std::uint64_t last = 0;
    return ++last;
  }

  share_name name() const { return {secret, lent.value, placed_serial}; }
  void lends() {
    auto file = make_sealed_memory("lent", bytes);
    BOOST_REQUIRE(file.ok());
    device::shared_object object{
        {bytes}, {std::make_shared<unique_fd>(std::move(*file))}};
    BOOST_REQUIRE(broker
                      ->lend({share_kind::placed, lent.value}, placed_serial,
                             std::move(object), {0, bytes})
                      .ok());
  }
};

struct placed_sharing_world : a_session {
  static constexpr auto bytes = 2 * granule_bytes;
  std::shared_ptr<last_answer> answers = std::make_shared<last_answer>();
  std::uint32_t host = 0;

  placed_sharing_world() {
    exec->serve(answers);
    call_it(call::memory_create{{lent}, bytes});
    place(lent, 0);
    word(0) = 11;
    auto got = ask(call::placed_share{{lent}, placed_secret, placed_serial});
    BOOST_REQUIRE(got.code == CUDA_SUCCESS);
    auto layout = share_layout::unpack(got.value);
    BOOST_TEST(layout.granules == 2u);
    BOOST_TEST(layout.lead == 0u);
    host = layout.host;
  }

  template <class Call>
  last_answer::told ask(const Call& x) {
    answers->last.reset();
    call_it(x);
    BOOST_REQUIRE(answers->last.has_value());
    return *answers->last;
  }
  void place(memory_id what, std::uint64_t granule) {
    auto to = at + granule * granule_bytes;
    call_it(call::memory_map{{what}, to, bytes});
    call_it(call::memory_access{
        to, bytes, static_cast<std::uint32_t>(memory_access::read_write)});
  }

  call::placed_import good() const {
    return {
        {borrowed}, bytes, {placed_secret, lent.value, placed_serial}, host};
  }
  CUresult import(const call::placed_import& x) { return ask(x).code; }
  CUresult import(const lender& from, memory_id as) {
    return import({{as}, lender::bytes, from.name(), host});
  }
  /// Returns the bytes that count against this session besides its own memory:
  /// memory that it freed while others have it, and memory of a lender that is
  /// gone.
  std::uint64_t counted() {
    auto got = ask(call::shared_bytes{});
    BOOST_REQUIRE(got.code == CUDA_SUCCESS);
    return got.value;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(placed_sharing, placed_sharing_world)

BOOST_AUTO_TEST_CASE(lender_and_borrower_use_one_memory) {
  BOOST_TEST(import(good()) == CUDA_SUCCESS);
  place(borrowed, 4);
  BOOST_TEST(word(4) == 11u);
  word(4) = 12;
  BOOST_TEST(word(0) == 12u);
  // After its owner has destroyed it nobody else can borrow it, but a borrower
  // keeps it.
  call_it(call::memory_unmap{at, bytes});
  call_it(call::memory_destroy{{lent}});
  auto again = good();
  again.memory = {memory_id{3}};
  BOOST_TEST(import(again) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(word(4) == 12u);
  call_it(call::memory_unmap{at + 4 * granule_bytes, bytes});
  call_it(call::memory_destroy{{borrowed}});
}

BOOST_AUTO_TEST_CASE(destroyed_memory_counts_while_it_is_borrowed) {
  BOOST_TEST(import(good()) == CUDA_SUCCESS);
  BOOST_TEST(exec->used_bytes() == bytes); // once
  call_it(call::memory_unmap{at, bytes});
  call_it(call::memory_destroy{{lent}});
  BOOST_TEST(exec->used_bytes() == bytes);
  BOOST_TEST(counted() == bytes);
  call_it(call::memory_destroy{{borrowed}});
  BOOST_TEST(counted() == 0u);
  BOOST_TEST(exec->used_bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(destroyed_memory_that_is_borrowed_leaves_no_room) {
  constexpr auto most = quota - bytes;
  auto other = std::make_unique<result<borrowed_thing>>(
      borrow(share_kind::placed, good().what, connect_abstract));
  BOOST_REQUIRE(other->ok());
  call_it(call::memory_unmap{at, bytes});
  call_it(call::memory_destroy{{lent}});
  BOOST_TEST(counted() == bytes);
  call_it(call::memory_create{{memory_id{3}}, most});
  // There is room only after the borrower has closed it as well.
  other.reset();
  BOOST_TEST(counted() == 0u);
  call_it(call::memory_create{{memory_id{4}}, bytes});
  BOOST_TEST(exec->used_bytes() == quota);
}

BOOST_AUTO_TEST_CASE(a_borrower_counts_memory_after_the_lenders_end) {
  lender other;
  other.lends();
  auto third = borrow(share_kind::placed, other.name(), connect_abstract);
  BOOST_REQUIRE(third.ok());
  BOOST_TEST(import(other, borrowed) == CUDA_SUCCESS);
  BOOST_TEST(counted() == 0u);
  BOOST_TEST(!third->stake.take_over());
  other.broker.reset();
  // One of its two borrowers counts it.
  BOOST_TEST(counted() == lender::bytes);
  BOOST_TEST(counted() == lender::bytes);
  BOOST_TEST(exec->used_bytes() == bytes + lender::bytes);
  BOOST_TEST(!third->stake.take_over());
  call_it(call::memory_destroy{{borrowed}});
  BOOST_TEST(counted() == 0u);
  BOOST_TEST(exec->used_bytes() == bytes);
  BOOST_TEST(third->stake.take_over());
}

BOOST_AUTO_TEST_CASE(a_borrower_beyond_its_quota_gets_no_more) {
  call_it(call::memory_create{{memory_id{3}}, quota - bytes});
  lender first, second;
  first.lends();
  second.lends();
  BOOST_TEST(import(first, borrowed) == CUDA_SUCCESS);
  first.broker.reset();
  BOOST_TEST(import(second, memory_id{4}) == CUDA_ERROR_OUT_OF_MEMORY);
  // Closing the memory that the first left makes room.
  call_it(call::memory_destroy{{borrowed}});
  BOOST_TEST(import(second, memory_id{4}) == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(a_session_that_shares_memory_is_not_migrated) {
  BOOST_TEST(cuda_code(exec->describable()) == CUDA_ERROR_NOT_SUPPORTED);
  // A session whose import was refused shares nothing.
  exec.reset();
  exec = fresh();
  exec->serve(answers);
  BOOST_TEST(import(good()) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(exec->describable().ok());
}

BOOST_AUTO_TEST_CASE(a_wrong_name_is_refused) {
  auto refused = [&](auto change) {
    auto bad = good();
    change(bad);
    BOOST_TEST(import(bad) == CUDA_ERROR_INVALID_VALUE);
  };
  refused([](auto& x) { x.what.session.low ^= 1; });
  refused([](auto& x) { x.what.serial ^= 1; });
  refused([](auto& x) { x.what.number ^= 8; });
  // Sizes that differ from the memory's, and sizes that no memory can have.
  for (auto size :
       {std::uint64_t{0}, granule_bytes, 3 * granule_bytes, bytes + 1,
        window_bytes + granule_bytes, ~std::uint64_t{0}, 0 - granule_bytes})
    refused([&](auto& x) { x.bytes = size; });
  auto elsewhere = good();
  elsewhere.host ^= 1;
  BOOST_TEST(import(elsewhere) == CUDA_ERROR_MAP_FAILED);
  // An import of an allocation does not match placed memory.
  auto as_handle = call::memory_import{
      {borrowed}, at + 8 * granule_bytes, bytes, good().what, host};
  BOOST_TEST(ask(as_handle).code == CUDA_ERROR_INVALID_VALUE);
  // The refused imports leave nothing behind.
  BOOST_TEST(import(good()) == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(memory_that_may_not_be_lent_is_refused) {
  BOOST_TEST(import(good()) == CUDA_SUCCESS);
  BOOST_TEST(import(good()) != CUDA_SUCCESS); // a handle that is taken
  auto share = [&](memory_id what, const share_secret& under) {
    return ask(call::placed_share{{what}, under, placed_serial}).code;
  };
  BOOST_TEST(share(memory_id{9}, placed_secret) != CUDA_SUCCESS);
  BOOST_TEST(share(borrowed, placed_secret) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(share(lent, share_secret{1, 1}) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(share(lent, placed_secret) == CUDA_SUCCESS);
  place(borrowed, 4);
  BOOST_TEST(word(4) == 11u);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu
