"""The families of messages about quotas, throttles and money (DESIGN 4).

One row is a kind of sentence, not one message: programs reword, models are renamed. The same words
("limit reached", "quota exceeded", 429) stand for a plan's quota, for a throttle of seconds and for
an empty purse; what tells them apart is the noun, the wait, and the window.
"""

from __future__ import annotations

from watcher.decision.text_kinds import Family, Kind, family

_YOU = r"you(?:'?ve| have| are|'?re)?"
_SPENT = r"(?:reached|exceeded|exhausted|hit|depleted|consumed|used (?:up|all(?: of)?)|maxed out|run out of)"
_IS_SPENT = (
    r"(?: has| have| was| is| were)?(?: now| fully| already| currently| just)?(?: been)?"
    r" (?:reached|exceeded|exhausted|hit|depleted|consumed|used up)"
)
_WINDOW = (
    r"usage|session|weekly|daily|monthly|hourly|yearly|annual|weekly/monthly|five[- ]hour|seven[- ]day"
    r"|\d{1,3}[- ]?(?:hours?|h|days?|d|weeks?)"
)
_SCOPE = (
    r"plan|subscription|opus|sonnet|haiku|fable|claude|fast|free(?:[- ]tier)?|premium(?: requests?)?"
    r"|messages?|prompts?|requests?|spend(?:ing)?|model quota|quota|allocated|pro|max|chat|agent mode"
    r"|completions?|tokens?"
)
_PLAN = rf"(?:{_WINDOW}|{_SCOPE})"
# A word between "your" and "limit" that does not make it another thing than a plan's limit.
_WORD = (
    r"(?!rate\b|current quota|retry|context|token count|turns?\b|thread|spend|maximum number|output"
    r"|file|size)"
    r"(?:[a-z0-9_/'()-]|\.(?=\w)){1,24}"
)

DENIALS: tuple[Family, ...] = (
    # They name the limit they are not, so they come first.
    family(
        "throttle",
        Kind.TRANSIENT,
        "limit|concurren|demand|load|traffic|busy",
        r"not (?:your|a|an|the) (?:usage|plan|session|account|subscription)(?: usage)? limit",
        r"temporarily limiting requests",
        r"server is (?:temporarily )?(?:busy|limiting)",
        r"(?:we(?:'re| are)? )?(?:currently )?(?:experiencing|seeing) (?:unusually |exceptionally |very )?"
        r"(?:high|heavy) (?:demand|load|traffic)",
        r"high concurrency|reduce (?:the |your )?concurrency|concurren(?:cy|t)(?: requests?)? limit",
    ),
)

QUOTAS: tuple[Family, ...] = (
    family(
        "not in this plan",
        Kind.ENTITLEMENT,
        "requir|upgrade|plan|subscription|tier|account|eligible|limit:",
        r"(?:usage credits|extra usage|credits|a paid plan|an? \S{1,12} (?:plan|subscription)) "
        r"(?:is |are )?required",
        r"requires? (?:usage credits|extra usage|credits|a paid|an? \S{1,20} (?:plan|subscription)"
        r"|a? ?subscription)",
        r"to use \S{1,30} with your \S{1,20} plan, upgrade",
        r"(?:not (?:available|included|supported)|isn't (?:available|included)) (?:in|on|with|for|under) "
        r"your (?:current )?(?:plan|subscription|tier|account)",
        r"your (?:current )?(?:plan|subscription|tier) does(?: not|n't) (?:include|support|allow|have)",
        r"upgrade your (?:plan|subscription|account) to (?:use|access|continue using|unlock)",
        r"(?:free )?tier (?:has been |was |is )?(?:discontinued|no longer available)",
        r"(?:account|plan|tier) is not eligible|IneligibleTier\w*",
        r"limit: 0\b",
    ),
    family(
        "prepaid quota",
        Kind.BILLING,
        "billing|insufficient_quota",
        r"quota[^\n]{0,60} check your plan and billing",
        r"insufficient_quota",
        unless=r"retry in|RetryInfo|quotaId|RESOURCE_EXHAUSTED|generativelanguage|free_tier"
        r"|per ?(?:minute|day)",
    ),
    family(
        "credits come back",
        Kind.LIMIT,
        "out|spend|credit",
        rf"{_YOU}(?:r org(?:anization)?(?: is|'s)?)? out of (?:extra usage|usage credits|credits|usage"
        rf"|quota|messages)",
        r"out of (?:extra usage|usage credits|credits|quota)",
        r"(?:spend(?:ing)?|credit) (?:cap|limit)",
        timed=True,
    ),
    family(
        "limit code",
        Kind.LIMIT,
        "limit",
        r"(?:usage|five_hour|seven_day)_limit_(?:reached|exceeded)|usageLimit(?:Exceeded|Reached)",
    ),
    family(
        "plan limit",
        Kind.LIMIT,
        "limit|quota|allowance|cap|usage|access|requests|messages|prompts",
        rf"{_YOU}(?: now)? {_SPENT} (?:your|the|all|its|our|this)(?: {_WORD}){{0,6}} "
        r"(?:limits?|quotas?|allowance|cap|requests for today)\b",
        rf"{_YOU} {_SPENT} your(?: {_WORD}){{1,3}} usage\b",
        rf"{_PLAN}(?: {_WORD})? (?:limits?|quotas?|cap|allowance){_IS_SPENT}",
        rf"(?:the|your)(?: {_WORD}){{0,3}} (?:usage|session|weekly|daily|monthly) (?:limits?"
        rf"|quotas?){_IS_SPENT}",
        rf"your(?: {_WORD}){{0,3}} quota{_IS_SPENT}",
        r"^limits? reached",
        r"run out of (?:\S{1,12} ){0,3}(?:requests|messages|prompts|usage)",
        r"(?:usage|quota) (?:limit )?(?:exceeded|exhausted|reached)(?=[, ]{1,2}(?:subscribe|upgrade"
        r"|resets?))",
        r"quota limit (?:exceeded|reached)",
        r"\blimit reached[ ,·|:(-]{1,4}(?:your limit )?(?:will )?resets?",
        r"free usage exceeded",
        r"out of (?:quota|requests|messages|prompts|free \S{1,12} (?:requests|messages|usage))",
        rf"(?:^|\n|: )reached your(?: {_WORD}){{0,4}} (?:limit|quota)\b",
        rf"(?:has|have) (?:exceeded|reached|exhausted|hit) (?:its|your|their|the)(?: {_WORD}){{0,3}} "
        rf"(?:usage limit|quota)\b",
        r"wait for your (?:\S{1,12} )?(?:limits?|quota) to (?:reset|refresh)(?! in)",
        r"(?:no|zero) (?:\S{1,12} )?quota(?: left| remaining)?\b",
        r"(?:0|no|zero) (?:\S{1,12} ){0,2}(?:requests|messages|prompts) (?:left|remaining)",
        r"your (?:usage )?limits? (?:will )?resets? (?:at|on|in|when)",
        r"access resets at",
        r"regain access",
    ),
    family(
        "full window",
        Kind.LIMIT,
        "used-percent|unified-",
        r"x-codex-[a-z]{1,20}-used-percent\"? ?[:=] ?\"?100",
        r"ratelimit-unified-(?:\S{1,12}-)?status\"? ?[:=] ?\"?rejected",
    ),
    family("epoch limit", Kind.LIMIT, "reached", r"limit reached ?\| ?\d{10}", anywhere=True),
    family(
        "Chinese limit",
        Kind.LIMIT,
        "使用|用量|调用|额度|次数|配额|限额|达|超",
        r"(?:[您你]的?)?(?:使用|用量|调用|额度|次数|配额|限额)[^。\n]{0,12}(?:上限|已用完|已用尽|用完|耗尽|已达)",
        r"(?:[您你])?(?:已经?达到?|达到了?|已超出|已超过)[^。\n]{0,20}(?:上限|限额|额度|配额|使用限制)",
        r"(?:[您你]的?)?(?:使用)?(?:限额|额度|配额)[^。\n]{0,30}(?:重置|恢复|刷新)",
    ),
    family(
        "billing",
        Kind.BILLING,
        "credit|afford|insufficient|billing|spend|payment|subscription|trial|plan|membership|package|top"
        "|recharge|usage|arrear|purchase|funds|余额|欠费|充值|套餐",
        r"credit balance (?:is )?(?:too )?low|requires more credits|can only afford",
        r"insufficient[ _](?:balance|credits?|funds|quota|g1|account balance)",
        r"(?:out of|no|not enough|run out of|ran out of|zero) (?:\S{1,12} )?credits?(?: left| remaining| "
        r"balance)?\b",
        r"out of (?:extra usage|usage credits|usage|funds)",
        r"credit limit|(?:usage|credit|spend) (?:allocation|allowance)(?: has been| is| was)? "
        r"(?:disabled|removed|revoked)",
        r"credits? (?:have |has |is |are )?(?:been )?(?:depleted|exhausted|run out|expired|used up)",
        r"spend(?:ing)? (?:cap|limit)(?! reached)",
        r"billing (?:hard limit|issue|problem|error|is not|not) ?\S{0,12}|billing_(?:error|hard_limit\w*"
        r"|not_active)",
        r"payment (?:required|method|failed|declined|overdue|is due)",
        r"(?:subscription|trial|plan|membership|package)(?: has| is| was)? "
        r"(?:expired|ended|inactive|cancell?ed|past due|lapsed|suspended)",
        r"(?:please )?(?:top[- ]up|recharge)|please (?:add|purchase|buy) (?:more )?(?:credits|funds)"
        r"|add (?:credits|funds|a payment)",
        r"account (?:is )?in arrears|overdue payment|Arrearage",
        r"余额不足|欠费|请?充值|套餐已(?:到期|过期)",
    ),
)

THROTTLES: tuple[Family, ...] = (
    family("daily budget", Kind.LIMIT, "x-ratelimit-reset", r"x-ratelimit-reset\"? ?[:=] ?\"?\d{13}\b"),
    family(
        "rate or quota",
        Kind.TRANSIENT,
        "rate|limit|quota|capacity|exhausted|too|429|throttl|usage|请求|调用|访问|并发",
        r"this request would exceed your \S{1,20}(?:'s)? rate limit",
        rf"{_YOU} (?:hit|reached|exceeded|are over) (?:your|the|our|a)(?: \S{{1,20}}){{0,2}} rate limits?",
        r"rate[- _]?limit(?!-[a-z]|er)(?:s|ed|ing)?(?: \S{1,12}){0,2} ?(?:exceeded|reached|hit|error)?",
        r"(?:exceed(?:ed|s)?) (?:your|the)(?: \S{1,24}){0,3} (?:rate limit|quota|requests? limit)",
        r"quota (?:has been |is |was )?(?:exceeded|exhausted)|quota_?exceeded|QUOTA_EXHAUSTED|QuotaError",
        r"exhausted your (?:\S{1,12} )?(?:capacity|quota)",
        r"resource[ _]?(?:has been )?exhausted",
        r"too many (?:requests|tokens|concurrent|connections)",
        r"request rejected \(429\)",
        r"(?:429|status) ?:? too many|(?:error|status|code|http)[ :=]{1,3}(?:code )?429\b|^429\b",
        r"throttl(?:ed|ing)\w*",
        r"usage limit (?:will reset|resets (?:at|in|on))|your quota (?:will reset|resets)",
        r"(?:请求|调用|访问)(?:过于频繁|频率过高|过多)|并发(?:数)?(?:过高|超)",
        soft=True,
    ),
    family(
        "headers",
        Kind.TRANSIENT,
        "ratelimit-|retry-after",
        r"(?:x-|anthropic-)?ratelimit-(?:reset|[a-z-]{1,40}-reset|reset-[a-z]{1,20})",
        r"retry-after(?:-ms)?\"? ?[:=]",
    ),
)
