/* What glibc's tests want of its support library that cannot be compiled outside of its tree. */
#include <limits.h>
#include <stdlib.h>
#include <support/check.h>
#include <support/xunistd.h>
#include <unistd.h>

const char support_objdir_root[] = "/";

char *xreadlink(const char *path)
{
	char *text = calloc(1, PATH_MAX);
	if (text == NULL || readlink(path, text, PATH_MAX - 1) < 0)
		FAIL_EXIT1("readlink (\"%s\"): %m", path);
	return text;
}
