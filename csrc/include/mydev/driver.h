/* driver.h: how to bring a device. Public C11 header.
 *
 * A driver is a shared object that exports one function, mydev_driver_query, which returns a table of functions. The
 * runtime calls them; everything above (allocator, operators, autograd, ...) is the runtime's. It is chosen by
 * MYDEV_DRIVER=<name or path>[:option,option...]; "host" is built in.
 *
 * Version rules: those of custom_call.h. A driver is accepted when its MAJOR equals the runtime's; entries beyond the
 * driver's struct_size count as NULL.
 *
 * Optional entries are marked; NULL there means what the comment says. All others must be given.
 *
 * Errors. Each function returns a mydev_code; on failure last_error() of the same thread gives the message, which the
 * runtime copies at once. Out of memory is MYDEV_RESOURCE_EXHAUSTED. A function that fails leaves its outputs alone.
 *
 * Threads. Any function may be called from any thread, except that initialize is called once, before all others.
 *
 * Order. Work on one stream runs in the order of the calls. Work on different streams is unordered but for events.
 */
#ifndef MYDEV_DRIVER_H_
#define MYDEV_DRIVER_H_

#include "mydev/custom_call.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MYDEV_DRIVER_VERSION_MAJOR 1
#define MYDEV_DRIVER_VERSION_MINOR 0
#define MYDEV_DRIVER_QUERY_SYMBOL "mydev_driver_query"

enum mydev_device_capability {
  /* The host may read and write device memory through the same pointer (inside host_access_begin/end, where those are
   * given). Turns on host kernels by alias: PyTorch's CPU kernels on device memory, without a copy. */
  MYDEV_CAPABILITY_HOST_ACCESSIBLE = 1u << 0,
  /* launch, copy and fill may return before the work is done. */
  MYDEV_CAPABILITY_ASYNC = 1u << 1,
  /* copy_peer works between any two devices of this driver. */
  MYDEV_CAPABILITY_PEER = 1u << 2,
  /* launch, copy and fill take any memory of the process as if it were the device's own. Lets tensors lie in memory
   * that processes share. */
  MYDEV_CAPABILITY_UNIFIED_MEMORY = 1u << 3
};

typedef struct mydev_device_properties {
  size_t struct_size;    /* set by the runtime before the call */
  char name[128];        /* NUL-terminated */
  uint64_t total_memory; /* bytes; allocations beyond it fail */
  uint32_t alignment;    /* bytes, of every pointer from memory_alloc; power of two, at least 64 */
  uint32_t capabilities; /* mydev_device_capability bits */
  int32_t major;         /* of the device's compute capability */
  int32_t minor;
  int32_t multi_processor_count;
  int32_t stream_priority_low;  /* least urgent; larger number = less urgent, as in CUDA */
  int32_t stream_priority_high; /* most urgent; <= stream_priority_low */
} mydev_device_properties;

typedef enum mydev_copy_kind {
  MYDEV_COPY_HOST_TO_DEVICE = 0,
  MYDEV_COPY_DEVICE_TO_HOST = 1,
  MYDEV_COPY_DEVICE_TO_DEVICE = 2 /* both on the stream's device */
} mydev_copy_kind;

enum mydev_event_flag {
  MYDEV_EVENT_TIMING = 1u << 0 /* event_elapsed will be asked for */
};

typedef struct mydev_driver_api {
  size_t struct_size;
  uint32_t version_major; /* MYDEV_DRIVER_VERSION_MAJOR the driver was built with */
  uint32_t version_minor;
  const char* name;    /* short name of the driver, e.g. "host" */
  const char* version; /* of the driver, for people */

  /* --- life ------------------------------------------------------------------------------------------------------ */

  /* `options` is the text after the colon in MYDEV_DRIVER, "" if none; an unknown option is MYDEV_INVALID_ARGUMENT and
   * the message names it and the valid ones. `host` lives as long as the process. Starts no thread. */
  mydev_code (*initialize)(const char* options, const mydev_host_services* host);
  /* Optional: NULL, nothing to do. Called at most once, at exit, when no work is pending. */
  void (*finalize)(void);
  /* Message of this thread's last failure; never NULL; valid until this thread's next call. */
  const char* (*last_error)(void);

  /* --- devices --------------------------------------------------------------------------------------------------- */

  mydev_code (*device_count)(int32_t* out_count); /* 0 is allowed: no hardware present */
  mydev_code (*device_properties)(int32_t device, mydev_device_properties* out_properties);
  /* Waits for all work on the device. Optional: NULL, the runtime synchronizes its streams one by one. */
  mydev_code (*device_synchronize)(int32_t device);

  /* --- memory ---------------------------------------------------------------------------------------------------- */

  /* bytes > 0. The pointer is aligned to properties.alignment. Contents are undefined. */
  mydev_code (*memory_alloc)(int32_t device, uint64_t bytes, void** out_data);
  /* `bytes` as given to memory_alloc. No work that uses it is pending. */
  mydev_code (*memory_free)(int32_t device, void* data, uint64_t bytes);
  /* Optional: NULL, the runtime computes free memory from total_memory and its own allocations. */
  mydev_code (*memory_info)(int32_t device, uint64_t* out_free, uint64_t* out_total);
  /* Page-locked host memory, page aligned. Optional (both or neither): NULL, ordinary host memory is used. */
  mydev_code (*host_alloc)(uint64_t bytes, void** out_data);
  mydev_code (*host_free)(void* data, uint64_t bytes);
  /* Brackets host access to device memory; nests; any thread. Optional (both or neither): NULL, access is always
   * allowed. Only for HOST_ACCESSIBLE devices. */
  mydev_code (*host_access_begin)(int32_t device);
  mydev_code (*host_access_end)(int32_t device);

  /* --- copies, on a stream --------------------------------------------------------------------------------------- */

  /* bytes > 0, no overlap. Host memory that is not from host_alloc may be read or written only before the call returns
   * (an asynchronous driver then waits). */
  mydev_code (*copy)(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind);
  /* Between two devices, on a stream of the source. Optional: NULL, the runtime goes through host memory. */
  mydev_code (*copy_peer)(mydev_stream stream, void* dst, int32_t dst_device, const void* src, int32_t src_device,
                          uint64_t bytes);
  /* Repeats `pattern` (pattern_bytes: 1, 2, 4, 8 or 16; copied before return) over `bytes`, a multiple of it. */
  mydev_code (*fill)(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes);

  /* --- streams --------------------------------------------------------------------------------------------------- */

  mydev_code (*stream_create)(int32_t device, int32_t priority, mydev_stream* out_stream);
  mydev_code (*stream_destroy)(mydev_stream stream); /* waits for its work */
  /* *out_done = 1 when all work given so far is finished, else 0. */
  mydev_code (*stream_query)(mydev_stream stream, int32_t* out_done);
  mydev_code (*stream_synchronize)(mydev_stream stream);
  /* Later work on `stream` waits for what `event` recorded last; an event never recorded does not wait. */
  mydev_code (*stream_wait_event)(mydev_stream stream, mydev_event event);

  /* --- events ---------------------------------------------------------------------------------------------------- */

  mydev_code (*event_create)(int32_t device, uint32_t flags, mydev_event* out_event);
  mydev_code (*event_destroy)(mydev_event event);
  mydev_code (*event_record)(mydev_event event, mydev_stream stream); /* again: replaces the earlier record */
  mydev_code (*event_query)(mydev_event event, int32_t* out_done);    /* never recorded: done */
  mydev_code (*event_synchronize)(mydev_event event);
  /* Milliseconds between two recorded, finished events made with MYDEV_EVENT_TIMING. */
  mydev_code (*event_elapsed)(mydev_event start, mydev_event end, double* out_milliseconds);

  /* --- work ------------------------------------------------------------------------------------------------------ */

  /* Runs kernel on stream. Without CAPABILITY_ASYNC: runs it now and returns its code; the frame is borrowed. With it:
   * MYDEV_OK means accepted; the driver owns the frame until it has called host->complete on it, exactly once. On
   * another code the frame stays the caller's. */
  mydev_code (*launch)(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame);
  /* This driver's own version of a well-known kernel, or NULL where it has none; the record lives as long as the
   * process. Optional: NULL, none. Without a version of its own the built-in host kernel is used if the device is
   * HOST_ACCESSIBLE, else the operator falls back. */
  const mydev_kernel* (*find_kernel)(int32_t device, const char* name);
} mydev_driver_api;

/* Exported by the driver. Takes the runtime's version; returns NULL when it cannot work with that. */
typedef const mydev_driver_api* (*mydev_driver_query_fn)(uint32_t version_major, uint32_t version_minor);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MYDEV_DRIVER_H_ */
