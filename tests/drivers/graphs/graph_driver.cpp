// Another driver (MYDEV_WRAPPED_DRIVER) with the extension `graph`: streams are recorded, and what they were given runs
// when the graph is launched. It refuses to record asynchronous streams. One thread at a time.
//
// Options: those of the wrapped driver.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mydev/driver_extensions.h"

namespace {

const mydev_driver_api* wrapped = nullptr;
std::string message;  // of a failure that is no wrapped driver's

// Of recorded frames: what kernels say of their failures is the driver's then.
const mydev_host_services* services_for(const mydev_host_services* runtimes) {
  static mydev_host_services services;
  services = *runtimes;
  services.set_error = [](const mydev_frame*, const char* said) { message = said; };
  return &services;
}

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
    frame_.launch = nullptr;
  }
  // Kernels may change what they are given.
  mydev_code run(mydev_stream stream) const {
    mydev_frame frame = frame_;
    std::vector<mydev_buffer> buffers = buffers_;
    frame.buffers = buffers.data();
    frame.stream = stream;
    frame.host = services_for(frame_.host);
    return wrapped->launch(stream, frame.kernel, &frame);
  }

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

using Node = std::function<mydev_code(mydev_stream)>;
struct Graph {
  std::vector<Node> nodes;
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
  graph->nodes.emplace_back(
      [recorded = std::make_shared<const RecordedFrame>(*frame)](mydev_stream on) { return recorded->run(on); });
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

// --- graphs ----------------------------------------------------------------------------------------------------------

bool asynchronous = false;

mydev_code initialize(const char* options, const mydev_host_services* host) {
  asynchronous = std::strstr(options, "async") != nullptr;
  return wrapped->initialize(options, host);
}

mydev_code capture_begin(mydev_stream stream) {
  if (asynchronous) return refuse("asynchronous streams are not recorded");
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
  if (wrapped->copy_strided != nullptr) api.copy_strided = copy_strided;
  api.extensions = kExtensions;
  api.num_extensions = 1;
  api.extension = extension;
  return &api;
}
