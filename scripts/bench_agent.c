/* An agent that costs next to nothing: scripts/bench lets the harness and its baselines poke it.
 *
 * BENCH_ANSWER   the file it prints
 * BENCH_COMMITS  ids of prepared commits, one a line; the next one becomes the branch's tip in BENCH_REF
 * BENCH_AT       where it remembers how many of them are used up
 * BENCH_NOTE     a file that gets its parent's peak memory in kB, one line a poke
 * BENCH_KILL     set: it kills its parent before anything else, and the parent's books end there
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void note_peak(const char *path) {
  char line[256], name[64];
  FILE *status, *note = fopen(path, "a");
  snprintf(name, sizeof name, "/proc/%d/status", (int)getppid());
  status = fopen(name, "r");
  while (note && status && fgets(line, sizeof line, status))
    if (strncmp(line, "VmHWM:", 6) == 0) fprintf(note, "%ld\n", atol(line + 6));
  if (status) fclose(status);
  if (note) fclose(note);
}

static void commit(const char *commits, const char *at, const char *ref) {
  char id[41], fresh[4096];
  long used = 0;
  FILE *file = fopen(at, "r");
  if (file && fscanf(file, "%ld", &used) != 1) used = 0;
  if (file) fclose(file);
  int list = open(commits, O_RDONLY);
  if (list < 0 || pread(list, id, sizeof id, used * (long)sizeof id) != (ssize_t)sizeof id) exit(3);
  close(list);
  snprintf(fresh, sizeof fresh, "%s.lock", ref);
  if (!(file = fopen(fresh, "w"))) exit(4);
  fwrite(id, 1, sizeof id, file);
  if (fclose(file) || rename(fresh, ref)) exit(5);
  if (!(file = fopen(at, "w"))) exit(6);
  fprintf(file, "%ld\n", used + 1);
  fclose(file);
}

int main(void) {
  static char block[1 << 16];
  const char *answer = getenv("BENCH_ANSWER"), *commits = getenv("BENCH_COMMITS"), *note = getenv("BENCH_NOTE");
  ssize_t size;
  if (getenv("BENCH_KILL")) kill(getppid(), SIGKILL);
  if (note) note_peak(note);
  if (commits) commit(commits, getenv("BENCH_AT"), getenv("BENCH_REF"));
  int file = answer ? open(answer, O_RDONLY) : -1;
  if (file < 0) return 2;
  while ((size = read(file, block, sizeof block)) > 0)
    if (write(1, block, (size_t)size) != size) return 7;
  return 0;
}
