#include "actors/link/seal/frame_seal.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <sys/random.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace vgpu {

namespace {

/// Is the longest that getrandom(2) fills at once whatever happens.
constexpr std::size_t whole_random = 256;

template <std::size_t size>
void fill_randomly(std::array<std::byte, size>& out) {
  static_assert(size <= whole_random);
  if (::getrandom(out.data(), size, 0) != static_cast<ssize_t>(size))
    throw std::runtime_error{
        "the kernel provides no random numbers (getrandom)"};
}

void check(int done, const char* what) {
  if (done != 1)
    throw std::runtime_error{std::string{"OpenSSL cannot "} + what};
}

unsigned char* bytes_of(zmq::message_t& x) {
  return x.data<unsigned char>();
}

/// Returns AES-256-GCM. It lives as long as the process.
const EVP_CIPHER* cipher() {
  static const EVP_CIPHER* const found = [] {
    // A worker's sandbox shows no configuration of OpenSSL, and none applies.
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
    return EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  }();
  if (found == nullptr)
    throw std::runtime_error{
        "this OpenSSL has no AES-256-GCM; install Debian's libssl3"};
  return found;
}

} // namespace

std::string text_of(const seal_ticket& ticket) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (auto x : ticket) {
    out += digits[std::to_integer<unsigned>(x) >> 4U];
    out += digits[std::to_integer<unsigned>(x) & 15U];
  }
  return out;
}

void make_secrets(seal_offer& offer) {
  fill_randomly(offer.ticket);
  fill_randomly(offer.key);
}

void frame_seal::free_context::operator()(evp_cipher_ctx_st* x) const noexcept {
  EVP_CIPHER_CTX_free(x); // erases the key
}

frame_seal::frame_seal(const seal_key& key, seal_direction direction,
                       const seal_subject& subject)
    : context_(EVP_CIPHER_CTX_new()), direction_(direction), subject_(subject) {
  if (!context_)
    throw std::bad_alloc{};
  // The calls that follow give a nonce and whether to encrypt.
  check(EVP_CipherInit_ex2(context_.get(), cipher(),
                           reinterpret_cast<const unsigned char*>(key.data()),
                           nullptr, 1, nullptr),
        "use a key");
}

/// Begins a message at the current position, with frames of these sizes.
void frame_seal::begin(bool encrypt, std::size_t head, std::size_t bulk) {
  struct {
    std::uint32_t direction;
    std::uint32_t position[2];
  } nonce{static_cast<std::uint32_t>(direction_), {}};
  static_assert(sizeof(nonce) == 12);
  std::memcpy(nonce.position, &position_, sizeof(position_));
  const std::uint64_t subject[] = {subject_.session.value, subject_.epoch.value,
                                   position_, head, bulk};
  auto ignored = 0;
  check(EVP_CipherInit_ex2(context_.get(), nullptr, nullptr,
                           reinterpret_cast<const unsigned char*>(&nonce),
                           encrypt ? 1 : 0, nullptr),
        "begin a message");
  check(EVP_CipherUpdate(context_.get(), nullptr, &ignored,
                         reinterpret_cast<const unsigned char*>(subject),
                         sizeof(subject)),
        "take a message's subject");
}

/// Encrypts or decrypts the first bytes of a frame. Both may be the same
/// memory.
void frame_seal::pass(const zmq::message_t& from, void* to, std::size_t bytes) {
  auto done = 0;
  if (bytes != 0)
    check(EVP_CipherUpdate(context_.get(), static_cast<unsigned char*>(to),
                           &done, from.data<unsigned char>(),
                           static_cast<int>(bytes)),
          "encrypt");
}

std::optional<frame_seal::frames> frame_seal::seal(const zmq::message_t& head,
                                                   const zmq::message_t& bulk) {
  if (position_ == most_messages)
    return std::nullopt;
  auto head_bytes = head.size();
  frames out{zmq::message_t{head_bytes + tag_bytes},
             zmq::message_t{bulk.size()}};
  begin(true, head_bytes, out.bulk.size());
  // Both write into memory of this process alone, so that a program which
  // changes the log meanwhile changes what is sent, and not whether it opens.
  pass(head, out.head.data(), head_bytes);
  pass(bulk, out.bulk.data(), out.bulk.size());
  auto none = 0;
  auto* tag = bytes_of(out.head) + head_bytes;
  check(EVP_CipherFinal_ex(context_.get(), tag, &none), "end a message");
  check(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, tag_bytes,
                            tag),
        "give a message's tag");
  ++position_;
  return out;
}

bool frame_seal::open(zmq::message_t& head, zmq::message_t& bulk) {
  if (position_ == most_messages || head.size() < tag_bytes ||
      head.size() > most_frame_bytes || bulk.size() > most_frame_bytes)
    return false;
  zmq::message_t opened{head.size() - tag_bytes};
  begin(false, opened.size(), bulk.size());
  pass(head, opened.data(), opened.size());
  // In place: the bytes are this process's own, and nobody reads them before
  // the tag was checked.
  pass(bulk, bulk.data(), bulk.size());
  auto none = 0;
  check(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, tag_bytes,
                            bytes_of(head) + opened.size()),
        "take a message's tag");
  if (EVP_CipherFinal_ex(context_.get(), nullptr, &none) != 1)
    return false;
  ++position_;
  head = std::move(opened);
  return true;
}

} // namespace vgpu
