#include "collectives/local_exchange.h"

#include <algorithm>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/command/host_work.h"
#include "runtime/command/transfer.h"
#include "runtime/memory/host_memory.h"

namespace mydev::collectives {

namespace {

// Returns an event behind the work that the stream was given; nullptr if that is done.
std::shared_ptr<Event> event_behind(Stream& stream) {
  if (!stream.asynchronous()) return nullptr;
  auto event = std::make_shared<Event>(stream.device().index, false);
  event->record_uncaptured(stream);
  return event;
}

}  // namespace

void LocalExchange::cancel(uint64_t run, const std::string& why) {
  const std::lock_guard lock(mutex_);
  cancelled_.add(run, why);
  changed_.notify_all();
}

void LocalExchange::wait(std::unique_lock<std::mutex>& lock, uint64_t run, const std::function<bool()>& holds) {
  changed_.wait(lock, [&] { return holds() || cancelled_.contains(run); });
  if (!holds()) cancelled_.check(run);
}

void LocalExchange::exchange(Stream& stream, const ExchangeKey& key, int self, std::span<const Transfer> sends,
                             std::span<const Transfer> receives) {
  std::vector<SharedPost> posts;
  if (!receives.empty()) {
    const std::shared_ptr<Event> ready = event_behind(stream);
    const std::lock_guard lock(mutex_);
    for (const Transfer& receive : receives) {
      posts.push_back(std::make_shared<Post>(Post{.to = receive, .stream = &stream, .ready = ready}));
      posts_[{key.run, key.operation, receive.peer, self}].push_back(posts.back());
    }
    changed_.notify_all();
  }
  try {
    for (const Transfer& transfer : sends) send(stream, key, self, transfer);
    for (const SharedPost& post : posts) finish(stream, key, *post);
  } catch (...) {
    withdraw(stream, key, self, posts);
    throw;
  }
}

void LocalExchange::send(Stream& stream, const ExchangeKey& key, int self, const Transfer& transfer) {
  SharedPost post;
  {
    std::unique_lock lock(mutex_);
    const Queue queue{key.run, key.operation, self, transfer.peer};
    wait(lock, key.run, [&] { return posts_.contains(queue); });  // no queue is empty
    std::deque<SharedPost>& waiting = posts_.at(queue);
    post = std::move(waiting.front());
    waiting.pop_front();
    if (waiting.empty()) posts_.erase(queue);
    post->state = State::kSending;
  }
  const auto end = [&](std::shared_ptr<Event> sent, std::shared_ptr<void> staged, const char* failure) {
    const std::lock_guard lock(mutex_);
    post->sent = std::move(sent);
    post->staged = std::move(staged);
    post->failure = failure;
    post->state = State::kSent;
    changed_.notify_all();
  };
  try {
    std::shared_ptr<void> staged;
    MYDEV_CHECK(post->to.bytes == transfer.bytes, MYDEV_FAILED_PRECONDITION, "member ", self, " brings ",
                transfer.bytes, " bytes to ", key.name, ", and member ", transfer.peer, " expects ", post->to.bytes,
                ": all members must do the same");
    const Device &from = stream.device(), &to = post->stream->device();
    if (&from == &to || from.reaches(to)) {
      if (post->ready != nullptr) post->ready->block(stream);
      if (&from == &to) {
        copy_bytes(stream, post->to.data, transfer.data, transfer.bytes, MYDEV_COPY_DEVICE_TO_DEVICE);
      } else {
        copy_to_peer(stream, post->to.data, to, transfer.data, transfer.bytes);
      }
    } else if (transfer.bytes != 0) {
      staged = pinned_memory(from, transfer.bytes);
      copy_bytes(stream, staged.get(), transfer.data, transfer.bytes, MYDEV_COPY_DEVICE_TO_HOST);
    }
    end(event_behind(stream), std::move(staged), "");
  } catch (const std::exception& error) {
    end(nullptr, nullptr, error.what());
    throw;
  }
}

// Makes the stream wait for data that were sent.
void LocalExchange::finish(Stream& stream, const ExchangeKey& key, Post& post) {
  {
    std::unique_lock lock(mutex_);
    wait(lock, key.run, [&post] { return post.state == State::kSent; });
  }
  MYDEV_CHECK(post.failure.empty(), MYDEV_ABORTED, key.name, " gets nothing from member ", post.to.peer, ": ",
              post.failure);
  if (post.sent != nullptr) post.sent->block(stream);
  if (post.staged == nullptr) return;
  copy_bytes(stream, post.to.data, post.staged.get(), post.to.bytes, MYDEV_COPY_HOST_TO_DEVICE);
  if (stream.asynchronous()) {
    submit_host_call(stream, "release of staged data", [staged = std::move(post.staged)] {});
  }
}

// Nobody writes to the places that were posted once the stream has done what it was given.
void LocalExchange::withdraw(Stream& stream, const ExchangeKey& key, int self,
                             std::span<const SharedPost> posts) noexcept {
  for (const SharedPost& post : posts) {
    std::unique_lock lock(mutex_);
    const auto queue = posts_.find({key.run, key.operation, post->to.peer, self});
    if (queue != posts_.end()) {
      std::erase(queue->second, post);
      if (queue->second.empty()) posts_.erase(queue);
    }
    if (post->state == State::kPosted) continue;
    changed_.wait(lock, [&post] { return post->state == State::kSent; });
    lock.unlock();
    try {
      const RaiserBypass bypass;
      if (post->sent != nullptr) post->sent->block(stream);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the stream has failed, and does no more
    }
  }
}

}  // namespace mydev::collectives
