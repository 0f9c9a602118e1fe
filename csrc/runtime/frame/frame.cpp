#include "runtime/frame/frame.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <string_view>

#include "runtime/base/quoted.h"
#include "runtime/frame/dtype.h"

namespace mydev {

namespace {

constexpr size_t round_up(size_t bytes) noexcept {
  return (bytes + 7) & ~size_t{7};
}

// Bytes of an attribute's value beyond the struct, dictionaries apart.
size_t payload_bytes(const mydev_attribute& attribute) noexcept {
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_STRING:
      return attribute.count;
    case MYDEV_ATTRIBUTE_INT_ARRAY:
      return attribute.count * sizeof(int64_t);
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
      return attribute.count * sizeof(double);
    case MYDEV_ATTRIBUTE_ARRAY:
      return attribute.count * static_cast<size_t>(dtype_size(static_cast<mydev_dtype>(attribute.dtype)));
    default:
      return 0;
  }
}

std::span<const mydev_attribute> dictionary_entries(const mydev_attribute& attribute) noexcept {
  if (attribute.kind != MYDEV_ATTRIBUTE_DICTIONARY) return {};
  return {attribute.value.attributes, attribute.count};
}

// Bytes of a self-contained copy, names and nested dictionaries included.
size_t copied_bytes(std::span<const mydev_attribute> attributes) noexcept {
  size_t bytes = round_up(attributes.size_bytes());
  for (const mydev_attribute& attribute : attributes) {
    bytes += round_up(std::strlen(attribute.name) + 1) + round_up(payload_bytes(attribute));
    bytes += copied_bytes(dictionary_entries(attribute));
  }
  return bytes;
}

// Hands out 8-byte aligned pieces of one block.
class Carver {
 public:
  explicit Carver(char* next) noexcept : next_(next) {}
  template <typename T>
  T* copy(const T* source, size_t count) noexcept {
    return static_cast<T*>(copy_bytes(source, count * sizeof(T)));
  }
  void* copy_bytes(const void* source, size_t bytes) noexcept {
    void* piece = next_;
    if (bytes != 0) {
      std::memcpy(next_, source, bytes);
    }
    next_ += round_up(bytes);
    return piece;
  }

 private:
  char* next_;
};

mydev_attribute* copy_attributes(Carver& carver, std::span<const mydev_attribute> attributes) noexcept {
  mydev_attribute* copies = carver.copy(attributes.data(), attributes.size());
  for (size_t i = 0; i < attributes.size(); ++i) {
    const mydev_attribute& attribute = attributes[i];
    copies[i].name = carver.copy(attribute.name, std::strlen(attribute.name) + 1);
    if (const size_t bytes = payload_bytes(attribute)) {
      copies[i].value.data = carver.copy_bytes(attribute.value.data, bytes);
    } else if (const auto entries = dictionary_entries(attribute); !entries.empty()) {
      copies[i].value.attributes = copy_attributes(carver, entries);
    }
  }
  return copies;
}

void print_scalar(std::ostream& out, const mydev_buffer& buffer) {
  const mydev_scalar& value = *static_cast<const mydev_scalar*>(buffer.data);
  out << dtype_name(static_cast<mydev_dtype>(buffer.dtype)) << ' ';
  switch (scalar_kind(buffer.dtype)) {
    case ScalarKind::kInteger:
      out << value.i;
      break;
    case ScalarKind::kFloat:
      out << value.f;
      break;
    case ScalarKind::kComplex:
      out << '(' << value.c[0] << ',' << value.c[1] << ')';
      break;
  }
}

void print_buffer(std::ostream& out, const mydev_buffer& buffer) {
  if (is_scalar(buffer)) return print_scalar(out, buffer);
  int64_t elements = 1;
  bool dense = true;
  for (int32_t d = buffer.rank - 1; d >= 0; --d) {
    dense = dense && (buffer.sizes[d] == 1 || buffer.strides[d] == elements);
    elements *= buffer.sizes[d];
  }
  if (buffer.dtype == MYDEV_DTYPE_INVALID || (buffer.data == nullptr && elements != 0)) {
    out << "none";
    return;
  }
  const auto print_list = [&](char open, const int64_t* values, char close) {
    out << open;
    for (int32_t d = 0; d < buffer.rank; ++d) {
      out << (d != 0 ? "," : "") << values[d];
    }
    out << close;
  };
  out << dtype_name(static_cast<mydev_dtype>(buffer.dtype));
  print_list('[', buffer.sizes, ']');
  if (!dense && elements != 0) {
    print_list('{', buffer.strides, '}');
  }
}

template <typename T>
void print_values(std::ostream& out, const T* values, uint32_t count) {
  constexpr uint32_t kShown = 16;
  out << '[';
  for (uint32_t i = 0; i < std::min(count, kShown); ++i) {
    out << (i != 0 ? "," : "") << values[i];
  }
  if (count > kShown) out << ",... of " << count;
  out << ']';
}

void print_attribute(std::ostream& out, const mydev_attribute& attribute) {
  out << attribute.name << '=';
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      out << (attribute.value.i != 0 ? "true" : "false");
      break;
    case MYDEV_ATTRIBUTE_INT:
      out << attribute.value.i;
      break;
    case MYDEV_ATTRIBUTE_FLOAT:
      out << attribute.value.f;
      break;
    case MYDEV_ATTRIBUTE_COMPLEX:
      out << '(' << attribute.value.c[0] << ',' << attribute.value.c[1] << ')';
      break;
    case MYDEV_ATTRIBUTE_STRING:
      out << in_quotes({attribute.value.bytes, attribute.count}, {.last = 0xff});
      break;
    case MYDEV_ATTRIBUTE_INT_ARRAY:
      print_values(out, attribute.value.ints, attribute.count);
      break;
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
      print_values(out, attribute.value.floats, attribute.count);
      break;
    case MYDEV_ATTRIBUTE_ARRAY:
      out << dtype_name(static_cast<mydev_dtype>(attribute.dtype)) << '[' << attribute.count << ']';
      break;
    case MYDEV_ATTRIBUTE_DICTIONARY: {
      const char* separator = "{";
      for (const mydev_attribute& entry : dictionary_entries(attribute)) {
        out << separator;
        print_attribute(out, entry);
        separator = ", ";
      }
      out << (attribute.count == 0 ? "{}" : "}");
      break;
    }
    default:
      out << '?';
  }
}

}  // namespace

int64_t dtype_size(mydev_dtype dtype) noexcept {
  return dtype_row(static_cast<int32_t>(dtype)).size;
}

const char* dtype_name(mydev_dtype dtype) noexcept {
  return dtype_row(static_cast<int32_t>(dtype)).name;
}

void FrameDeleter::operator()(mydev_frame* frame) const noexcept {
  std::free(frame);
}

namespace {

std::span<const mydev_buffer> buffers_of(const mydev_frame& frame) {
  return {frame.buffers, frame.num_outputs + frame.num_inputs};
}
std::span<const mydev_attribute> attributes_of(const mydev_frame& frame) {
  return {frame.attributes, frame.num_attributes};
}

}  // namespace

size_t cloned_bytes(const mydev_frame& frame) noexcept {
  const std::span<const mydev_buffer> buffers = buffers_of(frame);
  size_t bytes = round_up(sizeof(mydev_frame)) + round_up(buffers.size_bytes()) + copied_bytes(attributes_of(frame));
  for (const mydev_buffer& buffer : buffers) {
    bytes += 2 * static_cast<size_t>(buffer.rank) * sizeof(int64_t);
    if (is_scalar(buffer)) bytes += sizeof(mydev_scalar);
  }
  return bytes;
}

mydev_frame* clone_frame_into(const mydev_frame& frame, void* block) noexcept {
  const std::span<const mydev_buffer> buffers = buffers_of(frame);
  Carver carver(static_cast<char*>(block));
  mydev_frame* copy = carver.copy(&frame, 1);
  mydev_buffer* buffer_copies = carver.copy(buffers.data(), buffers.size());
  copy->buffers = buffer_copies;
  copy->attributes = copy_attributes(carver, attributes_of(frame));
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto rank = static_cast<size_t>(buffers[i].rank);
    buffer_copies[i].sizes = carver.copy(buffers[i].sizes, rank);
    buffer_copies[i].strides = carver.copy(buffers[i].strides, rank);
    if (is_scalar(buffers[i])) buffer_copies[i].data = carver.copy(static_cast<mydev_scalar*>(buffers[i].data), 1);
  }
  return copy;
}

OwnedFrame clone_frame(const mydev_frame& frame) {
  void* block = std::malloc(cloned_bytes(frame));
  if (block == nullptr) throw std::bad_alloc();
  return OwnedFrame(clone_frame_into(frame, block));
}

std::string describe_frame(const mydev_kernel& kernel, const mydev_frame& frame) {
  std::ostringstream out;
  out << kernel.name << '(';
  for (uint32_t i = 0; i < frame.num_outputs + frame.num_inputs; ++i) {
    out << (i != 0 ? ", " : "") << (i < frame.num_outputs ? "out " : "");
    print_buffer(out, frame.buffers[i]);
  }
  for (uint32_t i = 0; i < frame.num_attributes; ++i) {
    out << (i != 0 ? ", " : "; ");
    print_attribute(out, frame.attributes[i]);
  }
  out << ')';
  return out.str();
}

}  // namespace mydev
