// The end of a launch: mydev_host_services.complete, once for each frame that a driver accepted for later, and for no
// other frame.
//
// Frames carry services of the suite's own, which count and free nothing, so that a second call is counted and not a
// crash. A driver that keeps the services of initialize instead calls the runtime's, which free frame and completion; a
// second call is then a double free, and ends the case's process.
#include <memory>
#include <string>
#include <thread>

#include "conform/driver/calls.h"
#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"
#include "conform/driver/held_stream.h"
#include "conform/driver/scale_kernel.h"
#include "runtime/base/status.h"

namespace mydev::conform {
namespace {

constexpr int64_t kLongCount = 1 << 20;
constexpr const char* kComplete = "complete";

struct Completion {
  Calls calls;
  std::atomic<mydev_code> code{MYDEV_OK};  // of the latest call
};

// A frame's `launch` points to this. A completion does not free it, so that a second completion is seen.
class CountedCompletion final : public LaunchCompletion {
 public:
  explicit CountedCompletion(Completion& counted) : counted_(counted) {}
  void complete(mydev_frame* /*frame*/, mydev_code code) override {
    counted_.code.store(code, std::memory_order_release);
    counted_.calls.add();
  }

 private:
  Completion& counted_;
};

// Calls for borrowed frames, which have nothing in `launch`.
Calls& calls_for_borrowed_frames() {
  static Calls& calls = Calls::make();
  return calls;
}

const mydev_host_services& counting_services() {
  static const mydev_host_services services = [] {
    mydev_host_services counting = host_services();
    counting.complete = [](mydev_frame* frame, mydev_code code) {
      if (frame->launch == nullptr) {
        calls_for_borrowed_frames().add();
      } else {
        static_cast<LaunchCompletion*>(frame->launch)->complete(frame, code);
      }
    };
    return counting;
  }();
  return services;
}

// A frame on the heap, as asynchronous drivers are given it, with a completion that is counted or none.
struct CountedLaunch {
  CountedLaunch(const ScaleKernel& scale, Stream& stream, const ScaleArguments& arguments, bool owned) {
    mydev_frame original = arguments.frame();
    original.device = stream.device().index;
    original.stream = stream.handle();
    original.host = &counting_services();
    original.kernel = &scale.record();
    frame = clone_frame(original).release();
    if (!owned) return;
    frame->launch = static_cast<LaunchCompletion*>(std::make_unique<CountedCompletion>(completion).release());
  }

  Completion completion;
  mydev_frame* frame = nullptr;
};

mydev_code give(DriverCase& t, const ScaleKernel& scale, CountedLaunch& launch) {
  return t.driver().launch(t.stream().handle(), &scale.record(), launch.frame);
}

CountedLaunch& make_launch(DriverCase& t, const ScaleKernel& scale, const ScaleArguments& arguments, bool owned) {
  return keep_forever(std::make_unique<CountedLaunch>(scale, t.stream(), arguments, owned));
}

bool owns_frames(DriverCase& t, const ScaleKernel& scale) {
  return t.device().asynchronous() && !scale.borrows_frames();
}

void needs_owned_frames(DriverCase& t, const ScaleKernel& scale) {
  t.needs(owns_frames(t, scale), "the driver owns no frames: work is done when launch returns, or frames are borrowed");
}

void expect_completed(DriverCase& t, const CountedLaunch& launch, mydev_code code) {
  expect_one_call(t, kComplete, launch.completion.calls);
  t.checks.equal("the code given to complete", code_name(launch.completion.code.load(std::memory_order_acquire)),
                 code_name(code));
}

void expect_never_called(DriverCase& t, const Calls& calls, std::string_view frame) {
  std::this_thread::sleep_for(kLookout);
  t.checks.that(calls.number() == 0, "complete was called for a frame that " + std::string(frame));
}

void an_accepted_launch_is_completed_once(DriverCase& t) {
  const ScaleKernel scale(t);
  needs_owned_frames(t, scale);
  const DeviceMemory memory(t, 4 * kLongCount);
  t.upload(t.stream(), memory, bytes_of(std::vector<float>(kLongCount, 1)));
  CountedLaunch& launch = make_launch(t, scale, {memory, memory, kLongCount, 3}, true);
  t.must(give(t, scale, launch), "launch");
  expect_completed(t, launch, MYDEV_OK);
  t.same_bytes("three times 1, in f32, once complete has been called", t.download(stream_from_pool(0, 0), memory),
               bytes_of(std::vector<float>(kLongCount, 3)));
}

void a_pending_launch_is_not_completed(DriverCase& t) {
  const ScaleKernel scale(t);
  needs_owned_frames(t, scale);
  needs_held_streams(t);
  const DeviceMemory memory(t, 4 * kLongCount);
  t.upload(t.stream(), memory, bytes_of(std::vector<float>(kLongCount, 1)));
  HeldStream held(t, t.stream());
  CountedLaunch& launch = make_launch(t, scale, {memory, memory, kLongCount, 3}, true);
  t.must(give(t, scale, launch), "launch");
  expect_no_call(t, held, kComplete, launch.completion.calls);
  held.release();
  expect_completed(t, launch, MYDEV_OK);
}

void a_failed_launch_is_completed_once_or_refused(DriverCase& t) {
  const ScaleKernel scale(t);
  needs_owned_frames(t, scale);
  const DeviceMemory memory(t, 400);
  CountedLaunch& launch = make_launch(t, scale, {memory, memory, 100, 2, MYDEV_S32}, true);
  if (give(t, scale, launch) == MYDEV_OK) {
    expect_completed(t, launch, MYDEV_INVALID_ARGUMENT);
  } else {
    expect_never_called(t, launch.completion.calls, "launch did not accept");
  }
  forget_kernel_message(*launch.frame);
}

void a_borrowed_frame_is_not_completed(DriverCase& t) {
  const ScaleKernel scale(t);
  t.needs(!owns_frames(t, scale), "the driver owns the frames of its launches");
  const DeviceMemory memory(t, 4 * kLongCount);
  t.upload(t.stream(), memory, bytes_of(std::vector<float>(kLongCount, 1)));
  CountedLaunch& launch = make_launch(t, scale, {memory, memory, kLongCount, 3}, false);
  t.must(give(t, scale, launch), "launch");
  t.same_bytes("three times 1, in f32", t.download(t.stream(), memory), bytes_of(std::vector<float>(kLongCount, 3)));
  expect_never_called(t, calls_for_borrowed_frames(), "was borrowed");
}

}  // namespace

std::vector<Case> completion_cases() {
  return driver_cases({
      MYDEV_CASE(an_accepted_launch_is_completed_once, "complete is called exactly once, and the work is done by then"),
      MYDEV_CASE(a_pending_launch_is_not_completed, "complete is not called while the launch is pending"),
      MYDEV_CASE(a_failed_launch_is_completed_once_or_refused,
                 "a kernel's failure is given to complete once, or to launch"),
      MYDEV_CASE(a_borrowed_frame_is_not_completed, "complete is not called where the frame stays the caller's"),
  });
}

}  // namespace mydev::conform
