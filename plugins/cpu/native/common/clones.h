// Compiles a function for several instruction sets; the loader picks the best version at run time.
#ifndef OPWRIGHT_CPU_COMMON_CLONES_H_
#define OPWRIGHT_CPU_COMMON_CLONES_H_

// Use it for functions that contain a complete loop. All calls in the loop must be inlined
// (OPWRIGHT_CPU_INLINE); otherwise, the callees are compiled for the oldest instruction set. The
// body of an OpenMP region becomes a separate function, so regions must surround calls of such
// functions, never the reverse.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OPWRIGHT_CPU_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define OPWRIGHT_CPU_CLONES
#endif

#define OPWRIGHT_CPU_INLINE inline __attribute__((always_inline))

#endif  // OPWRIGHT_CPU_COMMON_CLONES_H_
