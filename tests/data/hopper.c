/* Three chains of processes that ignore every request to end: each link leaves its session, starts the
   next link and exits. Over after half a minute, so that a failing test does not go on for ever. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
    time_t end = time(NULL) + 30;
    int chain;

    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    for (chain = 1; chain < 3 && fork() == 0; chain++)
        ;
    while (time(NULL) < end) {
        if (fork() != 0)
            _exit(0);
        setsid();
    }
    return 0;
}
