// Another driver (MYDEV_WRAPPED_DRIVER) with the extension `graph`: streams are recorded, and what they were given runs
// when the graph is launched, later on asynchronous streams. One thread at a time, beside those of the wrapped driver.
//
// Options: those of the wrapped driver.
#include <dlfcn.h>

#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "mydev/driver_extensions.h"

namespace {

const mydev_driver_api* wrapped = nullptr;
std::string message;  // of a failure that is no wrapped driver's
bool asynchronous = false;

// Failures of launches of graphs after these had returned, until they are reported.
struct Failures {
  struct Failure {
    mydev_code code;
    std::string message;
  };
  std::mutex mutex;
  std::map<mydev_stream, Failure> of_streams;
} failures;

// Counts the launches of a graph that have not been completed.
class Pending {
 public:
  void add(int more) {
    const std::lock_guard lock(mutex_);
    count_ += more;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

// A frame that owns what it points to.
class RecordedFrame {
 public:
  RecordedFrame(const RecordedFrame&) = delete;
  RecordedFrame& operator=(const RecordedFrame&) = delete;
  explicit RecordedFrame(const mydev_frame& frame) : frame_(frame) {
    const uint32_t count = frame.num_outputs + frame.num_inputs;
    buffers_.assign(frame.buffers, frame.buffers + count);
    for (mydev_buffer& buffer : buffers_) {
      buffer.sizes = kept(buffer.sizes, static_cast<size_t>(buffer.rank));
      buffer.strides = kept(buffer.strides, static_cast<size_t>(buffer.rank));
      if ((buffer.flags & MYDEV_BUFFER_SCALAR) != 0) {
        buffer.data = const_cast<mydev_scalar*>(kept(static_cast<const mydev_scalar*>(buffer.data), 1));
      }
    }
    frame_.attributes = kept_attributes(frame.attributes, frame.num_attributes);
  }
  const mydev_frame& frame() const { return frame_; }
  const std::vector<mydev_buffer>& buffers() const { return buffers_; }

 private:
  template <typename T>
  const T* kept(const T* values, size_t count) {
    if (values == nullptr) return nullptr;
    std::vector<std::max_align_t>& block = blocks_.emplace_back(count * sizeof(T) / sizeof(std::max_align_t) + 1);
    std::memcpy(block.data(), values, count * sizeof(T));
    return reinterpret_cast<const T*>(block.data());
  }
  const mydev_attribute* kept_attributes(const mydev_attribute* given, uint32_t count) {
    auto* attributes = const_cast<mydev_attribute*>(kept(given, count));
    for (uint32_t i = 0; i < count; ++i) {
      mydev_attribute& attribute = attributes[i];
      attribute.name = kept(attribute.name, std::strlen(attribute.name) + 1);
      if (attribute.kind == MYDEV_ATTRIBUTE_STRING) {
        attribute.value.bytes = kept(attribute.value.bytes, attribute.count);
      } else if (attribute.kind == MYDEV_ATTRIBUTE_INT_ARRAY || attribute.kind == MYDEV_ATTRIBUTE_FLOAT_ARRAY) {
        attribute.value.ints = kept(attribute.value.ints, attribute.count);
      } else if (attribute.kind == MYDEV_ATTRIBUTE_DICTIONARY) {
        attribute.value.attributes = kept_attributes(attribute.value.attributes, attribute.count);
      }
    }
    return attributes;
  }

  mydev_frame frame_;
  std::vector<mydev_buffer> buffers_;
  std::deque<std::vector<std::max_align_t>> blocks_;
};

// A recorded launch that is given to the wrapped driver: copies, since kernels may change what they are given.
class Replay {
 public:
  static mydev_code run(std::shared_ptr<const RecordedFrame> recorded, std::shared_ptr<Pending> pending,
                        mydev_stream stream) {
    auto replay = std::make_unique<Replay>(std::move(recorded), std::move(pending), stream);
    mydev_frame& frame = replay->frame_;
    const mydev_code code = wrapped->launch(stream, frame.kernel, &frame);
    if (asynchronous && code == MYDEV_OK) {
      [[maybe_unused]] const Replay* completed_later = replay.release();
    } else if (!replay->message_.empty()) {
      message = replay->message_;
    }
    return code;
  }
  Replay(std::shared_ptr<const RecordedFrame> recorded, std::shared_ptr<Pending> pending, mydev_stream stream)
      : recorded_(std::move(recorded)),
        pending_(std::move(pending)),
        frame_(recorded_->frame()),
        buffers_(recorded_->buffers()),
        services_(*frame_.host) {
    services_.set_error = [](const mydev_frame* frame, const char* said) { of(frame).message_ = said; };
    services_.complete = [](mydev_frame* frame, mydev_code code) { of(frame).complete(code); };
    frame_.buffers = buffers_.data();
    frame_.stream = stream;
    frame_.host = &services_;
    frame_.launch = this;
    pending_->add(1);
  }
  ~Replay() { pending_->add(-1); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  static Replay& of(const mydev_frame* frame) { return *static_cast<Replay*>(frame->launch); }
  void complete(mydev_code code) {
    if (code != MYDEV_OK) {
      const std::lock_guard lock(failures.mutex);
      failures.of_streams.try_emplace(frame_.stream, Failures::Failure{code, message_});
    }
    delete this;
  }

  std::shared_ptr<const RecordedFrame> recorded_;
  std::shared_ptr<Pending> pending_;
  mydev_frame frame_;
  std::vector<mydev_buffer> buffers_;
  mydev_host_services services_;
  std::string message_;
};

using Node = std::function<mydev_code(mydev_stream)>;
struct Graph {
  std::vector<Node> nodes;
  std::shared_ptr<Pending> pending = std::make_shared<Pending>();
};
std::map<mydev_stream, Graph*> recording;

Graph* graph_of(mydev_stream stream) {
  const auto found = recording.find(stream);
  return found == recording.end() ? nullptr : found->second;
}

mydev_code refuse(const char* what) {
  message = what;
  return MYDEV_FAILED_PRECONDITION;
}

const char* last_error() {
  static thread_local std::string text;
  text = message.empty() ? wrapped->last_error() : message;
  message.clear();
  return text.c_str();
}

// --- work: recorded or given on --------------------------------------------------------------------------------------

mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame) {
  Graph* graph = graph_of(stream);
  if (graph == nullptr) return wrapped->launch(stream, kernel, frame);
  graph->nodes.emplace_back([recorded = std::make_shared<const RecordedFrame>(*frame),
                             pending = graph->pending](mydev_stream on) { return Replay::run(recorded, pending, on); });
  if (asynchronous) frame->host->complete(frame, MYDEV_OK);
  return MYDEV_OK;
}

mydev_code copy(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  Graph* graph = graph_of(stream);
  if (graph == nullptr) return wrapped->copy(stream, dst, src, bytes, kind);
  if (kind != MYDEV_COPY_DEVICE_TO_DEVICE) return refuse("a copy with the host is not recorded");
  graph->nodes.emplace_back([=](mydev_stream on) { return wrapped->copy(on, dst, src, bytes, kind); });
  return MYDEV_OK;
}

mydev_code fill(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  Graph* graph = graph_of(stream);
  if (graph == nullptr) return wrapped->fill(stream, dst, bytes, pattern, pattern_bytes);
  const std::string kept(static_cast<const char*>(pattern), pattern_bytes);
  graph->nodes.emplace_back([=](mydev_stream on) { return wrapped->fill(on, dst, bytes, kept.data(), pattern_bytes); });
  return MYDEV_OK;
}

mydev_code copy_strided(mydev_stream stream, const mydev_buffer* dst, const mydev_buffer* src, mydev_copy_kind kind) {
  if (graph_of(stream) != nullptr) return refuse("a strided copy is not recorded");
  return wrapped->copy_strided(stream, dst, src, kind);
}

mydev_code stream_status(mydev_stream stream, mydev_code* out_status) {
  const std::lock_guard lock(failures.mutex);
  const auto failed = failures.of_streams.find(stream);
  if (failed == failures.of_streams.end()) return wrapped->stream_status(stream, out_status);
  *out_status = failed->second.code;
  message = failed->second.message;
  failures.of_streams.erase(failed);
  return MYDEV_OK;
}

// --- graphs ----------------------------------------------------------------------------------------------------------

mydev_code initialize(const char* options, const mydev_host_services* host) {
  asynchronous = std::strstr(options, "async") != nullptr;
  return wrapped->initialize(options, host);
}

mydev_code capture_begin(mydev_stream stream) {
  recording[stream] = new Graph;
  return MYDEV_OK;
}
mydev_code capture_end(mydev_stream stream, mydev_graph* out_graph) {
  *out_graph = reinterpret_cast<mydev_graph>(graph_of(stream));
  recording.erase(stream);
  return MYDEV_OK;
}
mydev_code instantiate(mydev_graph graph, mydev_graph_exec* out_exec) {
  *out_exec = reinterpret_cast<mydev_graph_exec>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return MYDEV_OK;
}
mydev_code launch_graph(mydev_graph_exec exec, mydev_stream stream) {
  for (const Node& node : reinterpret_cast<Graph*>(exec)->nodes) {
    if (const mydev_code code = node(stream); code != MYDEV_OK) return code;
  }
  return MYDEV_OK;
}
mydev_code destroy(mydev_graph graph) {
  delete reinterpret_cast<Graph*>(graph);
  return MYDEV_OK;
}
mydev_code exec_destroy(mydev_graph_exec exec) {
  reinterpret_cast<Graph*>(exec)->pending->wait();
  delete reinterpret_cast<Graph*>(exec);
  return MYDEV_OK;
}

constexpr mydev_graph_extension kGraphs = {
    .head = {.struct_size = sizeof(mydev_graph_extension), .version = MYDEV_GRAPH_VERSION},
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .instantiate = instantiate,
    .launch = launch_graph,
    .destroy = destroy,
    .exec_destroy = exec_destroy,
};
constexpr mydev_extension kExtensions[] = {{MYDEV_GRAPH_EXTENSION, MYDEV_GRAPH_VERSION}};

const void* extension(const char* name, uint32_t /*version*/) {
  return std::strcmp(name, MYDEV_GRAPH_EXTENSION) == 0 ? &kGraphs : nullptr;
}

}  // namespace

extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t version_minor) {
  void* library = ::dlopen(MYDEV_WRAPPED_DRIVER, RTLD_NOW | RTLD_LOCAL);
  void* query = library == nullptr ? nullptr : ::dlsym(library, MYDEV_DRIVER_QUERY_SYMBOL);
  if (query == nullptr) {
    std::fprintf(stderr, "graph_driver: %s\n", ::dlerror());  // NOLINT(concurrency-mt-unsafe)
    std::abort();
  }
  wrapped = reinterpret_cast<mydev_driver_query_fn>(query)(version_major, version_minor);
  static mydev_driver_api api;
  api = *wrapped;
  api.name = "graphs";
  api.initialize = initialize;
  api.last_error = last_error;
  api.launch = launch;
  api.copy = copy;
  api.fill = fill;
  api.stream_status = stream_status;
  if (wrapped->copy_strided != nullptr) api.copy_strided = copy_strided;
  api.extensions = kExtensions;
  api.num_extensions = 1;
  api.extension = extension;
  return &api;
}
