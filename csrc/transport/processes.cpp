#include "transport/processes.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <ranges>
#include <sstream>

#include "runtime/base/log.h"
#include "runtime/base/status.h"

namespace mydev::transport {

namespace {

constexpr uint32_t kMagic = 0x6d79706a;
constexpr uint64_t kLongestText = 1 << 16;
constexpr size_t kMostCancelled = 1024;  // that are remembered: runs follow each other

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

bool same(const Subject& a, const Subject& b) noexcept {
  return a.program == b.program && a.run == b.run && a.operation == b.operation;
}

std::string place_of(const Subject& subject) {
  return subject.name + " (operation " + std::to_string(subject.operation) + " of run " + std::to_string(subject.run) +
         " of its program)";
}

}  // namespace

enum class FrameKind : uint32_t { kMessage = 1, kCancelled = 2, kTransfer = 3 };

// Each frame begins with a header; then comes the text, then the data. A transfer's key is in the place of the run, and
// its text says why it has no data.
struct Processes::Header {
  uint32_t magic = kMagic;
  FrameKind kind = FrameKind::kMessage;
  uint64_t program = 0, run = 0;
  int64_t operation = 0, from = 0, to = 0;
  uint64_t text_bytes = 0, data_bytes = 0;
};

Processes::Processes(const JoinOptions& options, std::vector<ProcessRecord> records, std::vector<Socket> sockets)
    : index_(options.index), timeout_(options.timeout), records_(std::move(records)) {
  for (Socket& socket : sockets) {
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->socket = std::move(socket);
  }
  for (int process = 0; process < count(); ++process) {
    if (process == index_) continue;
    peers_[static_cast<size_t>(process)]->reader = std::thread([this, process] { read(process); });
  }
}

Processes::~Processes() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  for (const auto& peer : peers_) peer->socket.shut_down();
  for (const auto& peer : peers_) {
    if (peer->reader.joinable()) peer->reader.join();
  }
}

int Processes::process_of(int64_t device) const noexcept {
  int64_t first = 0;
  for (int process = 0; process < count(); ++process) {
    first += records_[static_cast<size_t>(process)].devices;
    if (device < first) return device < 0 ? -1 : process;
  }
  return -1;
}

Deadline Processes::deadline() const {
  return timeout_.count() < 0 ? kNoDeadline : std::chrono::steady_clock::now() + timeout_;
}

std::string Processes::describe(int process) const {
  const ProcessRecord& record = records_[static_cast<size_t>(process)];
  return "process " + std::to_string(process) + " of " + std::to_string(count()) + " (" + record.host +
         ", process id " + std::to_string(record.id) + ")";
}

uint64_t Processes::next_run(uint64_t program, int64_t device) {
  const std::lock_guard lock(mutex_);
  return ++runs_[{program, device}];
}

void Processes::send_frame(int process, const Header& header, std::span<const std::span<const std::byte>> parts) {
  Peer& peer = *peers_[static_cast<size_t>(process)];
  {
    const std::lock_guard lock(mutex_);
    MYDEV_CHECK(peer.failure.empty(), MYDEV_UNAVAILABLE, describe(process), " has ended: ", peer.failure);
  }
  std::string problem;
  try {
    const RaiserBypass bypass;
    const std::lock_guard lock(peer.sending);
    const Deadline by = deadline();
    peer.socket.send(std::as_bytes(std::span(&header, 1)), by);
    for (const std::span<const std::byte> part : parts) peer.socket.send(part, by);
    return;
  } catch (const Error& error) {
    problem = error.what();
  }
  fail(process, problem);  // part of a frame may be under way
  raise(MYDEV_UNAVAILABLE, "nothing can be sent to " + describe(process) + ": " + problem);
}

void Processes::send(const Subject& subject, std::span<const std::span<const std::byte>> parts) {
  Header header{.program = subject.program,
                .run = subject.run,
                .operation = subject.operation,
                .from = subject.from,
                .to = subject.to,
                .text_bytes = subject.name.size()};
  std::vector<std::span<const std::byte>> all = {bytes_of(subject.name)};
  for (const std::span<const std::byte> part : parts) {
    header.data_bytes += part.size();
    all.push_back(part);
  }
  send_frame(process_of(subject.to), header, all);
}

Message Processes::receive(const Subject& subject) {
  const int process = process_of(subject.from);
  const Peer& peer = *peers_[static_cast<size_t>(process)];
  const Deadline by = deadline();
  std::unique_lock lock(mutex_);
  std::deque<Message>& messages = messages_[{subject.from, subject.to}];
  const auto is_cancelled = [this](const Subject& of) { return cancelled_.contains({of.program, of.run}); };
  const auto is_left = [this, &subject](const Subject& of) {  // behind, by the devices here
    const auto found = cancelled_.find({of.program, of.run});
    return found != cancelled_.end() && found->second.here && !same(of, subject);
  };
  while (true) {
    while (!messages.empty() && is_left(messages.front().subject)) messages.pop_front();
    if (!messages.empty() && same(messages.front().subject, subject)) {
      Message first = std::move(messages.front());
      messages.pop_front();
      return first;
    }
    if (is_cancelled(subject)) {
      raise(MYDEV_ABORTED, subject.name + " waited for " + describe(process) +
                               " in vain: " + cancelled_.at({subject.program, subject.run}).why);
    }
    if (!messages.empty()) {
      const Subject other = messages.front().subject;
      const std::string why = "device " + std::to_string(subject.to) + " came to " + place_of(subject) +
                              ", and device " + std::to_string(subject.from) + ", of " + describe(process) + ", to " +
                              place_of(other) +
                              " of another: all processes must run the same programs in the same order";
      remember_cancelled({other.program, other.run}, why, /*here=*/true);
      raise(MYDEV_FAILED_PRECONDITION, why);
    }
    MYDEV_CHECK(peer.failure.empty(), MYDEV_UNAVAILABLE, describe(process), " has ended, and device ", subject.to,
                " waits for its device ", subject.from, " in ", subject.name, ": ", peer.failure);
    if (by == kNoDeadline) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, by) == std::cv_status::timeout && messages.empty()) {
      MYDEV_CHECK(!peer.failure.empty() || is_cancelled(subject), MYDEV_DEADLINE_EXCEEDED, "device ", subject.from,
                  ", of ", describe(process), ", did not come to ", place_of(subject), " within ",
                  std::chrono::duration<double>(timeout_).count(),
                  " seconds; if it may take longer, set MYDEV_PROCESS_TIMEOUT");
    }
  }
}

void Processes::send_transfer_frame(const Transfer& transfer, const std::string& text,
                                    std::span<const std::byte> data) {
  const Header header{.kind = FrameKind::kTransfer,
                      .run = transfer.key,
                      .from = transfer.from,
                      .to = transfer.to,
                      .text_bytes = text.size(),
                      .data_bytes = data.size()};
  send_frame(process_of(transfer.to), header, std::array{bytes_of(text), data});
}

void Processes::send_transfer(const Transfer& transfer, std::span<const std::byte> data) {
  send_transfer_frame(transfer, "", data);
}

void Processes::fail_transfer(const Transfer& transfer, const std::string& why) {
  try {
    const RaiserBypass bypass;
    send_transfer_frame(transfer, why.substr(0, kLongestText), {});
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): one that has ended waits for nothing
  }
}

Message Processes::receive_transfer(const Transfer& transfer) {
  const int process = process_of(transfer.from);
  const Peer& peer = *peers_[static_cast<size_t>(process)];
  const Deadline by = deadline();
  std::unique_lock lock(mutex_);
  const auto arrived = [this, &transfer] { return transfers_.contains(transfer); };
  while (!arrived()) {
    MYDEV_CHECK(peer.failure.empty(), MYDEV_UNAVAILABLE, describe(process), " has ended, and device ", transfer.to,
                " waits for an array of its device ", transfer.from, ": ", peer.failure);
    if (by == kNoDeadline) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, by) == std::cv_status::timeout && !arrived()) {
      MYDEV_CHECK(!peer.failure.empty(), MYDEV_DEADLINE_EXCEEDED, "device ", transfer.from, ", of ", describe(process),
                  ", did not send an array to device ", transfer.to, " within ",
                  std::chrono::duration<double>(timeout_).count(),
                  " seconds; all processes must call jax.device_put alike; if it may take longer, set "
                  "MYDEV_PROCESS_TIMEOUT");
    }
  }
  Message first = std::move(transfers_.extract(transfers_.lower_bound(transfer)).mapped());
  MYDEV_CHECK(first.subject.name.empty(), MYDEV_ABORTED, "device ", transfer.from, ", of ", describe(process),
              ", has no array for device ", transfer.to, ": ", first.subject.name);
  return first;
}

void Processes::cancel(uint64_t program, uint64_t run, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!remember_cancelled({program, run}, why, /*here=*/true)) return;
  }
  const std::string text = ("in " + describe(index_) + ": " + why).substr(0, kLongestText);
  const Header header{.kind = FrameKind::kCancelled, .program = program, .run = run, .text_bytes = text.size()};
  for (int process = 0; process < count(); ++process) {
    if (process == index_) continue;
    try {
      const RaiserBypass bypass;
      const std::span<const std::byte> part = bytes_of(text);
      send_frame(process, header, {&part, 1});
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): one that has ended waits for nothing
    }
  }
}

void Processes::leave(std::chrono::milliseconds longest) {
  if (index_ != 0 || records_[0].id != ::getpid()) return;
  for (const auto& peer : peers_) peer->socket.stop_sending();
  const auto is_there = [this](int process) {
    return process != index_ && peers_[static_cast<size_t>(process)]->failure.empty();
  };
  const std::chrono::milliseconds wait = timeout_.count() < 0 ? longest : timeout_;
  std::string there;
  {
    std::unique_lock lock(mutex_);
    const auto all_have_ended = [&] { return std::ranges::none_of(std::views::iota(0, count()), is_there); };
    if (changed_.wait_for(lock, wait, all_have_ended)) return;
    for (const int process : std::views::iota(0, count()) | std::views::filter(is_there)) {
      there += there.empty() ? "" : ", ";
      there += describe(process);
    }
  }
  std::ostringstream line;
  line << describe(index_) << " is done and has waited " << std::chrono::duration<double>(wait).count()
       << " seconds for the others to end; it ends now, although these have not: " << there;
  log(MYDEV_LOG_WARNING, line.str().c_str());
}

bool Processes::remember_cancelled(Run run, std::string why, bool here) {
  const auto [entry, is_new] = cancelled_.try_emplace(run, Cancelled{std::move(why)});
  entry->second.here = entry->second.here || here;
  if (is_new) cancelled_in_order_.push_back(run);
  if (cancelled_in_order_.size() > kMostCancelled) {
    cancelled_.erase(cancelled_in_order_.front());
    cancelled_in_order_.pop_front();
  }
  changed_.notify_all();
  return is_new;
}

void Processes::fail(int process, const std::string& why) {
  const std::lock_guard lock(mutex_);
  std::string& failure = peers_[static_cast<size_t>(process)]->failure;
  if (failure.empty()) failure = why;
  changed_.notify_all();
}

// Runs on a thread of its own.
void Processes::read(int process) {
  pthread_setname_np(pthread_self(), ("mydev-peer-" + std::to_string(process)).substr(0, 15).c_str());
  const Socket& socket = peers_[static_cast<size_t>(process)]->socket;
  const RaiserBypass bypass;
  std::string problem;
  try {
    while (true) {
      Header header;
      socket.receive(std::as_writable_bytes(std::span(&header, 1)), kNoDeadline);
      MYDEV_CHECK(header.magic == kMagic && header.text_bytes <= kLongestText, MYDEV_DATA_LOSS,
                  "what it sent is no message");
      std::vector<std::byte> text(header.text_bytes);
      socket.receive(text, kNoDeadline);
      Message message;
      message.size = header.data_bytes;
      message.data = std::make_unique_for_overwrite<std::byte[]>(message.size);
      socket.receive({message.data.get(), message.size}, kNoDeadline);
      take(process, header, text, std::move(message));
    }
  } catch (const std::exception& error) {
    problem = error.what();
  }
  fail(process, problem);
}

void Processes::take(int process, const Header& header, const std::vector<std::byte>& text, Message message) {
  std::string words(reinterpret_cast<const char*>(text.data()), text.size());
  const std::lock_guard lock(mutex_);
  if (header.kind == FrameKind::kCancelled) {
    remember_cancelled({header.program, header.run}, std::move(words), /*here=*/false);
    return;
  }
  if (header.kind == FrameKind::kTransfer) {
    message.subject.name = std::move(words);  // why there are no bytes, if there are none
    transfers_.emplace(Transfer{header.from, header.to, header.run}, std::move(message));
    changed_.notify_all();
    return;
  }
  message.subject = {header.program, header.run, header.operation, header.from, header.to, std::move(words)};
  messages_[{header.from, header.to}].push_back(std::move(message));
  changed_.notify_all();
}

}  // namespace mydev::transport
