// How a kernel is given memory, and where it says that a check failed. The definitions of preludes.py tell which: a
// pointer for each buffer, or a base and an offset in bytes; a word of the device's memory, or none.
#if BASE_AND_OFFSET
#define IN_PARAMETER(T, name) IN(T) name##_base, i64 name##_offset
#define OUT_PARAMETER(T, name) OUT(T) name##_base, i64 name##_offset
#define IN_POINTER(T, name) IN(T) name = (IN(T))((IN(u8))name##_base + name##_offset);
#define OUT_POINTER(T, name) OUT(T) name = (OUT(T))((OUT(u8))name##_base + name##_offset);
#else
#define IN_PARAMETER(T, name) IN(T) name
#define OUT_PARAMETER(T, name) OUT(T) name
#define IN_POINTER(T, name)
#define OUT_POINTER(T, name)
#endif
#if FAULT_WORD
#define FAULT_PARAMETER , GLOBAL u32* mydev_fault
#define FAIL *mydev_fault = 1
#else
#define FAULT_PARAMETER
#endif
