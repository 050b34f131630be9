/* A policy that lets no name change on which others depend, and that lets be what
 * was there before: what is taken is held, whatever it is.
 *
 *   clang --target=wasm32 -Os -ffreestanding -fno-builtin -nostdlib \
 *         -I ../../../policy/sdk -Wl,--no-entry -o steady.wasm steady.c
 */
#include "meshgen.h"

static struct fact transition, kind, dependents, candidates;

static int answer(enum decision d, const char *reason)
{
	because(reason);
	return d;
}

static int rename(void)
{
	if (yes("data"))
		return answer(REFUSE, "it holds data");
	if (ask("dependents", &dependents) && dependents.len != 0) {
		because("on its name depends ");
		if (dependents.len > 0)
			meshgen_reason(dependents.text, dependents.len);
		else
			because("more than can be told");
		return REFUSE;
	}
	return answer(FOLLOW, "nothing depends on its name");
}

static int transfer(void)
{
	int i;

	ask("candidates", &candidates);
	for (i = 0; i < candidates.len; i++)
		if (candidates.text[i] == ' ')
			return answer(REFUSE, "it may have been another");
	if (candidates.len == -2)
		return answer(REFUSE, "it may have been any of many");
	return answer(TRANSFER, "the name stays");
}

DECIDE
{
	ask("transition", &transition);
	ask("kind", &kind);
	if (is(&transition, "takeover"))
		return answer(HOLD, "what was there is let be");
	if (is(&transition, "rename"))
		return rename();
	if (is(&transition, "transfer"))
		return transfer();
	if (is(&transition, "remove"))
		return yes("data") ? answer(KEEP, "it holds data") : answer(REMOVE, "it is no longer declared");
	if (is(&transition, "drift"))
		return answer(REFUSE, "what changed is looked at by a human first");
	return answer(REFUSE, "of this nothing is known here");
}
