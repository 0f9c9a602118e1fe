/* The part that card.cpp and the card's compiler share: a queue, and its memory. */
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "card.h"

/* Returns the code, and keeps the message for card_error of this thread. */
mydev_code card_fail(mydev_code code, std::string message);

/* The addresses that it hands out are reserved and inaccessible, the data lie elsewhere. */
class CardMemory {
 public:
  /* Once, before anything else. False without address space for it. */
  bool reserve(uint64_t bytes);
  /* The place where the data of an address lie. */
  void* translate(const void* pointer) const {
    return pointer == nullptr ? nullptr : data_ + (static_cast<const char*>(pointer) - address_);
  }
  char* base() const { return data_; }
  bool holds(const void* pointer, uint64_t bytes) const {
    const auto offset = static_cast<uint64_t>(static_cast<const char*>(pointer) - address_);
    return pointer >= address_ && offset <= size_ && bytes <= size_ - offset;
  }
  void* allocate(uint64_t bytes);           /* nullptr: no free range is large enough */
  bool release(void* data, uint64_t bytes); /* false for what is no memory of this card */

 private:
  std::mutex mutex_;
  char* address_ = nullptr;
  char* data_ = nullptr;
  uint64_t size_ = 0;
  std::map<uint64_t, uint64_t> free_ranges_; /* offset, bytes */
};

/* Tasks, and the thread that runs them, which stands for the card. */
struct card_queue {
  using Task = std::function<mydev_code()>; /* on failure the message is the thread's card_error */

  card_queue(CardMemory& of_device, bool waits);
  ~card_queue();
  card_queue(const card_queue&) = delete;
  card_queue& operator=(const card_queue&) = delete;

  mydev_code run(Task task);
  bool is_done();
  void wait();
  bool is_blocking() const { return blocking_; } /* run returns when the task is done */
  std::pair<mydev_code, std::string> take_failure();

  CardMemory& memory;

 private:
  void work();

  const bool blocking_;
  std::mutex mutex_; /* guards what follows */
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  uint64_t given_ = 0, finished_ = 0;
  bool ending_ = false;
  std::pair<mydev_code, std::string> failure_{MYDEV_OK, ""};
  std::thread thread_; /* last: it uses all of the above */
};
