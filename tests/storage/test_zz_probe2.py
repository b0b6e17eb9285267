import msgspec, pytest, traceback
from tests.storage.test_proofs import *  # noqa
from tests.storage.test_proofs import record, erased, exported, changed
from dealer_agent.storage.chain import event_hash, commitment, CONSENTS, ChainEnd
from dealer_agent.storage.evidence import _row, _Event, _First, _said, _time
from dealer_agent.storage.consents import event_of

def rechained(lines):
    """Rehash the whole file as an attacker would (no recorded head)."""
    first = msgspec.json.decode(lines[0], type=_First)
    before = first.before_hash
    out=[]
    number=first.before
    for line in lines[1:]:
        e = msgspec.json.decode(line, type=_Event)
        number=e.number
        h = event_hash(_row(first.dealer_id, e), before, CONSENTS)
        e = msgspec.structs.replace(e, hash=h)
        before=h
        out.append(msgspec.json.encode(e))
    d, c, n, hx, at = first.head.split()
    first = msgspec.structs.replace(first, head=f"{d} {c} {number} {before.hex()} {at}")
    return [msgspec.json.encode(first), *out]

def attempt(name, lines, heads=()):
    try:
        got = check_evidence(lines, heads)
        print("PASSES:", name, [ (e.number,e.kind,e.consent_text) for e in got.events], got.compared)
    except BadEvidence as e:
        print("detected:", name, "|", e)
    except BaseException as e:
        print("CRASH:", name, type(e), str(e)[:100])

def drop(lines, place, *names):
    line = msgspec.json.decode(lines[place])
    for n in names: line.pop(n)
    return [*lines[:place], msgspec.json.encode(line), *lines[place+1:]]

def test_probe(erased, record, database_url):
    if database_url.startswith("postgresql"): return
    head,_ = erased.heads(DEALER, WEDNESDAY)
    print()
    for l in record: print(l[:200])
    attempt("text of event dropped", drop(record, 1, "body", "said"), [head])
    # cut the beginning
    first = msgspec.json.decode(record[0])
    e1 = msgspec.json.decode(record[1]); e2=msgspec.json.decode(record[2])
    attempt("cut the beginning", [msgspec.json.encode(first | {"before": 1, "before_hash": e1["hash"]}), *record[2:]], [head])
    attempt("no leads", [drop(record,1,"body","said") and msgspec.json.encode(first | {"lead_ids": []}), *[msgspec.json.encode({k:v for k,v in msgspec.json.decode(l).items() if k not in ("body","said")}) for l in record[1:]]], [head])
    attempt("only head", [msgspec.json.encode(first | {"before": e2["number"]+6, "before_hash": msgspec.json.decode(record[-1])["hash"]})], [head])
    attempt("lead id twice", [msgspec.json.encode(first|{"lead_ids":["L1","L1","L9"]}), *record[1:]],[head])
    attempt("exported_at other", [msgspec.json.encode(first|{"exported_at":"never \x1b[31m"}), *record[1:]],[head])
    attempt("order of leads", [msgspec.json.encode(first|{"lead_ids":["L1"],"head":first["head"].replace("2026","2025")}), *record[1:]],[head])
    deep = record[1].replace(b'"said":', b'"said":'+b"["*400000+b"]"*400000+b',"x":',1)
    attempt("deep", [record[0], deep])
    attempt("deep0", [b'{"form":'+b"["*490000])
    for name, value in (("at", 10**19), ("at", -10**18), ("at", 2**63), ("granted_at", 10**18),("expires_at", 10**30), ("number", 10**30)):
        line = msgspec.json.decode(record[1])|{name:value}
        try: attempt(f"{name} {value}", rechained([record[0], msgspec.json.encode(line), *record[2:]]))
        except BaseException as e: print("build", name, type(e))
    def with_body(body, extra={}):
        line = msgspec.json.decode(record[1])
        import base64
        line["body"]=base64.b64encode(body).decode(); line["commitment"]=base64.b64encode(commitment(body)).decode()
        line |= extra
        ev = msgspec.json.decode(msgspec.json.encode(line), type=_Event)
        try:
            said = _said(event_of(_row("ridgeline", ev)|{n:_time(getattr(ev,n)) for n in ("at","granted_at","expires_at")}, body))
            raw = msgspec.json.encode({**{k:v for k,v in line.items() if k!="said"}, "said": msgspec.Raw(said)})
        except BaseException as e:
            print("build", type(e), e); raw = msgspec.json.encode(line)
        return rechained([record[0], raw, *record[2:]])
    attempt("customer no customer", with_body(msgspec.msgpack.encode({"salt":b"1","customer":b'{"a":1}'})))
    attempt("customer no json", with_body(msgspec.msgpack.encode({"salt":b"1","customer":b'"}, {"'})))
    attempt("channels no list", with_body(msgspec.msgpack.encode({"salt":b"1"}), {"channels": {"a":1}}))
    attempt("deep msgpack", with_body(b"\x91"*200000))
    attempt("kind odd", with_body(msgspec.msgpack.encode({"salt":b"1"}), {"kind":"\x1b[2J"}))
    attempt("same", with_body(msgspec.msgpack.encode({"salt":b"1"})))
