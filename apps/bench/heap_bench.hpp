#pragma once
// What the symmetric heap costs and how full it gets. Arithmetic on offsets alone: no memory is behind it.

namespace shmoe::apps {

struct HeapFigures {
  double alloc_us;
  double free_us;
  double utilisation_mixed;
  double utilisation_after;
  bool sound;  // no two blocks overlap
};

/// Times: medians over many short series of calls, at 10 000 live blocks of 1 byte to 1 MiB, long after the start.
/// Utilisation: the mixed scenario of CAM's HFA, 27 blocks of which 14 are freed and asked for again as one, which is
/// granted after compact(); when the 27 are in, and at the end.
///
/// Units:   microseconds a call · bytes asked for by live blocks, as a share of the region: 0 to 1
/// Errors:  broken contract where the heap refuses what must fit
/// Source:  count, sums and region as published; the 27 sizes are drawn, as they are not
HeapFigures measure_heap();

}  // namespace shmoe::apps
