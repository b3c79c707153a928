/* The least that an event can cost: open, lock, append 300 bytes, unlock, sync, exit. */

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    char line[300];

    if (count != 2)
        return 2;
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\n';

    int file = open(arguments[1], O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0 || flock(file, LOCK_EX) != 0)
        return 1;
    if (write(file, line, sizeof line) != sizeof line)
        return 1;
    if (flock(file, LOCK_UN) != 0 || fdatasync(file) != 0)
        return 1;
    return 0;
}
