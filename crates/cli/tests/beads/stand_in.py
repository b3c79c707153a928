"""A stand-in for `bd`: keeps issues in beads.json, one caller at a time.

Words in the file `manner` change how it behaves, so that tests can meet every program that is used
like bd: bare, issues, items, results, object (the shape of its answers), no-claim, no-limit,
ignore-claim, no-comments (what it lacks), tell-before
(an issue as it was before it was claimed), hang, crash, garbage, flood, locked, locked-once, chatty (what is
wrong with it), stolen (another worker takes bd-a1 when it is to be claimed).
"""

import fcntl
import json
import os
import sys
import time

words = sys.argv[1:]
manner = open("manner").read().split() if os.path.exists("manner") else []
with open("calls", "a") as calls:
    calls.write(" ".join(words) + "\n")


def option(name, default=None):
    return words[words.index(name) + 1] if name in words else default


def fail(message, stream=sys.stderr, code=1):
    print(message, file=stream)
    sys.exit(code)


def answer(issues):
    shape = next((m for m in manner if m in ("bare", "issues", "items", "results", "object")), "data")
    if shape == "object" and len(issues) == 1:
        value = issues[0]
    elif shape in ("bare", "object"):
        value = issues
    else:
        value = {"schema_version": 1, shape: issues}
    if "chatty" in manner:
        print("[warning] the daemon is of another version\n[1] restarted")
    print(json.dumps(value))
    if "chatty" in manner:
        print("Showing all")


if "hang" in manner:
    time.sleep(60)
if "crash" in manner:
    os.kill(os.getpid(), 9)
if "garbage" in manner:
    print("\x1b[31mnot json { at all")
    sys.exit(0)
if "flood" in manner:
    sys.stdout.write("x" * 50_000_000)
    sys.exit(0)
if "--json" not in words or os.environ.get("BD_JSON_ENVELOPE") != "1":
    fail("asked for text")
if os.environ.get("RUST_LOG") != "error" or any(
    name in os.environ for name in ("BD_AGENT_MODE", "CLAUDE_CODE", "BR_OUTPUT_FORMAT", "TOON_DEFAULT_FORMAT")
):
    fail("asked for chatter, short lists or another language")
if "no-limit" in manner and "--limit" in words:
    fail("error: unexpected argument '--limit' found")
if "no-claim" in manner and words[0] == "ready" and "--claim" in words:
    fail("Error: unknown flag: --claim")

lock = open("lock", "a")
fcntl.flock(lock, fcntl.LOCK_EX)
issues = json.load(open("beads.json"))
actor = option("--actor", "")
if os.environ.get("BEADS_ACTOR", "") != actor or os.environ.get("BD_ACTOR", "") != actor:
    fail("called in two names")
by_id = {issue["id"]: issue for issue in issues}


def store():
    with open("beads.new", "w") as out:
        json.dump(issues, out)
    os.replace("beads.new", "beads.json")


def is_ready(issue):
    waits = [by_id[d["depends_on_id"]]["status"] for d in issue.get("dependencies", [])]
    return issue["status"] == "open" and all(status == "closed" for status in waits)


def claim(issue):
    if issue["status"] == "in_progress" and issue.get("assignee") != actor or issue["status"] == "closed":
        return False
    issue.update(status="in_progress", assignee=actor)
    store()
    return True


command = next(word for word in words if not word.startswith("-"))
if command == "comments":
    if "no-comments" in manner:
        fail("Error: unknown command \"comments\" for \"bd\"")
    _, verb, of, text, *_ = words
    assert verb == "add"
    by_id[of].setdefault("comments", []).append({"author": actor, "text": text})
    store()
    # A comment is no issue: its id is a number.
    print(json.dumps({"id": 7, "issue_id": of, "author": actor, "text": text}))
    sys.exit(0)
ready = sorted((i for i in issues if is_ready(i)), key=lambda issue: issue["priority"])
if command == "ready" and "--claim" in words and "ignore-claim" not in manner:
    before = [dict(issue) for issue in ready[:1]]
    for issue in ready[:1]:
        claim(issue)
    answer(before if "tell-before" in manner else ready[:1])
elif command == "ready":
    answer(ready)
elif command == "list":
    wanted = option("--status")
    everything = "--all" in words or "-a" in words
    answer([i for i in issues if (i["status"] == wanted if wanted else everything or i["status"] != "closed")])
else:
    like = [issue for issue in issues if issue["id"].startswith(words[1])]
    issue = by_id.get(words[1], like[0] if len(like) == 1 else None)
    if issue is None:
        fail(json.dumps({"error": f"no issue {words[1]}", "hint": "see bd list", "schema_version": 1}), sys.stdout)
    if command == "show":
        answer([issue])
    elif command == "update" and "--claim" in words:
        if "stolen" in manner and issue["id"] == "bd-a1" and issue["status"] == "open":
            issue.update(status="in_progress", assignee="other")
            store()
        elif "locked" in manner or "locked-once" in manner and not os.path.exists("tried"):
            open("tried", "w")
            print("Warning: the database is busy")
            fail(f"Error claiming {words[1]}: database is locked")
        if not claim(issue):
            fail(f"Error claiming {words[1]}: already claimed by {issue.get('assignee')}")
        answer([issue])
    elif command == "update":
        issue.update(status=option("--status"), assignee=option("--assignee"))
        store()
        answer([issue])
    elif command == "close":
        children = [i["id"] for i in issues if i.get("parent") == issue["id"] and i["status"] != "closed"]
        if children:
            fail(f"cannot close {issue['id']}: open children {', '.join(children)}")
        issue.update(status="closed", close_reason=option("--reason"))
        store()
        answer([issue])
    else:
        fail("unknown command " + command)
