/* The built-in policy: what is decided where a module brings no policy of its
 * own. docs/policy.md has the table that this is, and `make policy` makes
 * builtin.wasm of it. */
#include "../sdk/meshgen.h"

#define AS_THE_POLICY_SAYS "as its policy says"

/* Static, since a stack for them would take another page of memory. */
static struct fact transition, setting, kind, change, candidates;

static int answer(enum decision d, const char *reason)
{
	because(reason);
	return d;
}

static int set_to(const char *word)
{
	return is(&setting, word);
}

/* A setting that says nothing known refuses: a slip of the pen must not decide. */
static int unknown_setting(const char *key, const char *words)
{
	because(key);
	because(" is \"");
	if (setting.len > 0)
		meshgen_reason(setting.text, setting.len);
	because("\", and not one of ");
	because(words);
	return REFUSE;
}

static int takeover(void)
{
	if (!ask("policy.takeover", &setting)) {
		if (yes("node.adopted"))
			return answer(HOLD, "on an adopted node what was there is let be");
		return answer(REFUSE, "what meshgen did not make it does not touch");
	}
	if (set_to("adopt")) {
		if (yes("observed.released"))
			return answer(HOLD, "it was given back by hand");
		return answer(ADOPT, AS_THE_POLICY_SAYS);
	}
	if (set_to("hold"))
		return answer(HOLD, AS_THE_POLICY_SAYS);
	if (set_to("refuse"))
		return answer(REFUSE, AS_THE_POLICY_SAYS);
	return unknown_setting("policy.takeover", "adopt, hold, refuse");
}

static int holds_data(void)
{
	return yes("data");
}

/* left_behind answers for what holds data, which does not go with its name. */
static int left_behind(const char *before, const char *between, const char *after)
{
	because(before);
	because(between);
	because(is(&kind, "dir") ? "an empty directory" : "an empty volume");
	because(after);
	return REFUSE;
}

static int rename(void)
{
	int known = ask("policy.rename", &setting);

	if (known && !set_to("follow") && !set_to("migrate") && !set_to("refuse"))
		return unknown_setting("policy.rename", "follow, migrate, refuse");
	if (known && set_to("refuse"))
		return answer(REFUSE, AS_THE_POLICY_SAYS);
	if (!holds_data())
		return answer(FOLLOW, known ? AS_THE_POLICY_SAYS : "what holds no data follows its new name");
	if (!known)
		return left_behind("its data would stay behind", " and ", " take its place");
	if (set_to("follow"))
		return left_behind("policy \"follow\" would leave its data behind", " and put ", " in its place");
	if (is(&kind, "dir"))
		return answer(REFUSE, "a directory is not copied: its data would stay behind");
	return answer(MIGRATE, "its data is copied, and the old one stays as it is, held");
}

/* several returns whether the list of candidates has more than one member. A
 * list that is too long to be read has. */
static int several(void)
{
	int i;

	candidates.len = meshgen_fact("candidates", 10, candidates.text, FACT_MAX);
	for (i = 0; i < candidates.len && i < FACT_MAX; i++)
		if (candidates.text[i] == ' ')
			return 1;
	return candidates.len > FACT_MAX;
}

static void name_candidates(void)
{
	int i, begin = 0;

	if (candidates.len > FACT_MAX / 2) {
		because("any of many");
		return;
	}
	for (i = 0; i <= candidates.len; i++) {
		if (i < candidates.len && candidates.text[i] != ' ')
			continue;
		if (begin > 0)
			because(" or ");
		meshgen_reason(candidates.text + begin, i - begin);
		begin = i + 1;
	}
}

static int transfer(void)
{
	if (ask("policy.transfer", &setting)) {
		if (set_to("refuse"))
			return answer(REFUSE, AS_THE_POLICY_SAYS);
		if (!set_to("transfer"))
			return unknown_setting("policy.transfer", "transfer, refuse");
	}
	if (several()) {
		because("it may have been ");
		name_candidates();
		return REFUSE;
	}
	return answer(TRANSFER, "the name stays, and has another address");
}

/* runs returns whether what is of that kind runs on the machine. */
static int runs(void)
{
	return is(&kind, "container") || is(&kind, "unit") || is(&kind, "pod") || is(&kind, "kube");
}

static int remove(void)
{
	int known = ask("policy.remove", &setting);

	if (known && !set_to("remove") && !set_to("keep") && !set_to("refuse"))
		return unknown_setting("policy.remove", "remove, keep, refuse");
	if (known && set_to("refuse"))
		return answer(REFUSE, AS_THE_POLICY_SAYS);
	if (known && set_to("remove"))
		return answer(REMOVE, AS_THE_POLICY_SAYS);
	if (!known && !holds_data())
		return answer(REMOVE, "it is no longer declared");
	if (!runs())
		return answer(KEEP, known ? AS_THE_POLICY_SAYS : "it holds data");
	return answer(REFUSE, known ? "its policy keeps it, and without its unit nothing could stop it any more"
	                            : "it holds data, and without its unit nothing could stop it any more");
}

static int drift(void)
{
	int known = ask("policy.drift", &setting);

	if (known && !set_to("restore") && !set_to("keep") && !set_to("refuse"))
		return unknown_setting("policy.drift", "restore, keep, refuse");
	ask("change", &change);
	if (is(&change, "directory"))
		return answer(REFUSE, "a directory is in its place");
	if (known && set_to("refuse"))
		return answer(REFUSE, "to be refused " AS_THE_POLICY_SAYS);
	if (is(&change, "masked"))
		return answer(KEEP, "a mask is its owner's word");
	if (is(&change, "overridden"))
		return answer(KEEP, "what comes before it was found, and is not ours");
	if (is(&change, "remade"))
		return answer(KEEP, "what has the name is not ours");
	if (known && set_to("keep"))
		return answer(KEEP, AS_THE_POLICY_SAYS);
	if (!known && holds_data() && is(&change, "gone"))
		return answer(REFUSE, "it held data, and an empty one would take its place");
	return answer(RESTORE, known ? AS_THE_POLICY_SAYS : "what is declared is put back");
}

DECIDE
{
	ask("transition", &transition);
	ask("kind", &kind);
	if (is(&transition, "takeover"))
		return takeover();
	if (is(&transition, "rename"))
		return rename();
	if (is(&transition, "transfer"))
		return transfer();
	if (is(&transition, "remove"))
		return remove();
	if (is(&transition, "drift"))
		return drift();
	return answer(REFUSE, "of this nothing is known here");
}
