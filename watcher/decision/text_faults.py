"""The families of messages about everything but quotas: session, login, model, service, network.

One row is a kind of sentence, not one message. A blank in a pattern stands for any white space.
"""

from __future__ import annotations

from watcher.decision.text_kinds import Family, Kind, family

CONVERSATION: tuple[Family, ...] = (
    family(
        "context",
        Kind.CONTEXT,
        "context|prompt|input|allowed|too|tokens|length|compact|compress|blocking_limit|too_large|上下文|输入|提示",
        r"prompt (?:is )?too (?:long|large)",
        r"(?:input|request|message|conversation|context|transcript|content|payload|body|chat)"
        r"(?: entity| body| payload| history| length)?(?: is| was)? too (?:long|large|big)",
        r"context[ _](?:length|window|limit|size)(?: was| is| has been)?[ _]"
        r"(?:exceeded|overflow\w*|will overflow|is full|full|reached|exhausted)",
        r"(?:exceed(?:s|ed|ing)?|overflow\w*|larger than|out of room in|ran out of|outside) (?:the )?"
        r"(?:\S{1,20} ){0,3}context(?: window| length| limit| size|\b)",
        r"maximum (?:context|input|prompt|allowed) (?:length|tokens|token|size)",
        r"max(?:imum)?[_ ](?:context|prompt|input)[_ ](?:length|tokens)",
        r"(?:prompt|input|context)(?: token)?s?(?: count| length)? (?:of |\()?[0-9,.]{0,12}\)? ?(?:tokens )?"
        r"(?:exceeds?|is (?:greater|longer|larger) than)\b(?! \d+ ?[KMG]i?B)",
        r"too many (?:input|prompt|total) (?:text )?tokens",
        r"input length and \S{1,20} exceed context limit",
        r"reduce the length of the (?:messages|input|prompt|conversation)",
        r"context_length_exceeded|ContextOverflowError|ContextWindowExceeded\w*|model_context_window_exceeded"
        r"|request_too_large|prompt_too_long|blocking_limit",
        r"(?:compaction|compact|compress(?:ion)?|auto-compact)(?: the conversation)? (?:failed|error)",
        r"error (?:during|in) compaction",
        r"(?:usage credits|extra usage) (?:is |are )?required for (?:1M|long) "
        r"context",  # a smaller one is the cure
        r"(?:上下文|输入|提示词?)(?:长度|窗口)?(?:过长|超(?:出|过))",
    ),
    family(
        "session unknown",
        Kind.SESSION_LOST,
        "session|conversation|thread|rollout|chat",
        r"no (?:conversation|saved session|session|thread|rollout|chat|such session|previous sessions?)\b"
        r"(?: \S{1,20}){0,2} found",
        r"(?<!oauth )(?<!login )(?<!sign-in )(?<!auth )(?:session|conversation|thread|chat)(?: \S{1,80})? "
        r"(?:was |is |could |does |has )?(?:not found|not be found|not exist|expired|been deleted)",
        r"(?:unknown|invalid|no such) (?:session|thread|conversation)(?: identifier| id)?\b",
        r"--resume requires a valid session|error resuming session",
        r"(?:failed|cannot|could not|unable) (?:to )?(?:find|load|resume)(?: \S{1,12}){0,2} "
        r"(?:session|thread|conversation|rollout)",
    ),
    family(
        "session taken",
        Kind.SESSION_TAKEN,
        "already",
        r"session(?: id)?(?: \S{1,80})? (?:is )?already (?:in use|exists)",
    ),
    family(
        "turn budget",
        Kind.TURN_CAP,
        "turns|steps|iterations|turnlimited",
        r"(?:reached|exceeded|hit)(?: the)? max(?:imum)?(?: number of)?(?: session| agent)? (?:turns|steps"
        r"|iterations)",
        r"max(?:imum)?[ _-](?:session |agent )?(?:turns|steps|iterations) (?:reached|exceeded|limit)",
        r"error_max_turns|FatalTurnLimitedError|MaxSessionTurns\w*",
    ),
    family(
        "own budget",
        Kind.BUDGET,
        "budget",
        r"reached maximum budget",
        r"(?:token|cost|wall-clock|time|run|rollout|usd|dollar)(?: token)? budget(?: of \S{1,20})?"
        r"(?: has been| was| is)? (?:exhausted|exceeded|reached)",
        r"FatalBudgetExceededError|error_max_budget_usd|budget_exhausted",
    ),
)

ACCESS: tuple[Family, ...] = (
    family(
        "untrusted directory",
        Kind.UNTRUSTED,
        "trusted",
        r"not (?:inside|running in|in) a (?:git repository or )?trusted (?:directory|folder|workspace)",
        r"(?:directory|folder|workspace) is not trusted|untrusted (?:directory|folder|workspace)",
    ),
    family(
        "model",
        Kind.BAD_MODEL,
        "model",
        r"issue with the selected model",
        r"model_not_found|ModelNotFound\w*",
        r"(?:unknown|invalid|unsupported|no such) model\b",
        r"model (?:\S{1,60} )?(?:is |was |does |has )?"
        r"(?:not (?:found|exist|supported|available|allowed)|been (?:deprecated|retired|removed)|retired)",
        r"(?:not have access to|no access to)(?: the| this)? model",
    ),
    family(
        "login",
        Kind.AUTH,
        "log|sign|auth|token|key|credential|expired|refreshed|401|403|permission|access|account|disabled|suspended|deactivated|banned|hold"
        "|restricted|country|region|location|validation|verif|environment|登录|令牌|密钥|身份|鉴权|认证",
        r"not (?:logged|signed) in|not authenticated|must be logged in|login (?:is )?required",
        r"(?:please )?(?:run|use) (?:/\S{0,12}login|\S{1,12} (?:auth )?login)",
        r"(?:log|sign)[ -]?(?:out and (?:log|sign) )?in again",
        r"please (?:re-?)?(?:log ?in|login|sign in|authenticate)|re-?authenticate|re-?authorize",
        r"(?:login|session|sign-?in|credentials?) (?:has |have )?expired",
        r"(?:failed to|could not|cannot|unable to) (?:authenticate|refresh the \S{1,12} (?:access )?token)",
        r"authentication (?:failed|required|error|expired)|authentication_(?:error|failed)",
        r"(?:oauth|access|auth|refresh|bearer|id)[ _]?tokens? (?:(?:has|have|is|was|been|could|not|be"
        r"|already|and|or) )"
        r"{0,4}(?:expired|invalid|revoked|missing|refreshed|used)",
        r"token (?:has |is )?(?:expired|been revoked|invalid)|could not be refreshed",
        r"(?:invalid|incorrect|missing|no|expired|wrong) (?:x-)?(?:api|auth)[- _]?key",
        r"api[- _]?key(?: \S{1,20})? (?:is |was |not )?"
        r"(?:invalid|missing|required|expired|not valid|not found|not set|revoked|disabled|valid)",
        r"missing environment variable|set an auth method|no auth(?:entication)? (?:method|credentials"
        r"|information)",
        r"(?:no|missing|invalid|needs an? \S{1,20}) (?:\S{1,14} )?credentials?|credentials? (?:not found"
        r"|missing|expired|rejected)"
        r"|rejected your \S{1,20} credential",
        r"(?:401|403) (?:unauthorized|forbidden)|unauthori[sz]ed",
        r"(?:error|status|code|http)[ :=]{1,3}(?:code )?(?:401|403)\b|\(HTTP 40[13]\)",
        r"permission_error|permission[ _]denied(?: on resource)?:? ?(?:consumer|caller|api)"
        r"|PERMISSION_DENIED",
        r"your api key does not have permission|does not have (?:access|permission)",
        r"(?:organization|account|workspace|user)(?: \S{1,20})? (?:has been|is|was) "
        r"(?:disabled|suspended|deactivated|banned|on hold|restricted)",
        r"account(?: \S{1,40})? is (?:not active|inactive)",
        r"(?:account )?(?:validation|verification) (?:is )?required|verify your (?:account|identity|email)",
        r"(?:organization|admin(?:istrator)?|workspace|owner|account) has (?:been )?disabled",
        r"disabled (?:by|for) your (?:admin|org)\S{0,12}",
        r"\[(?:unauthenticated|permission_denied)\]",
        r"access (?:blocked|denied)|(?:unsupported|restricted|not (?:available|supported) in your) "
        r"(?:country|region|location)|user location is not supported",
        r"oauth_org_not_allowed|account_on_hold|cloud_credential_error|FatalAuthenticationError"
        r"|UNAUTHENTICATED",
        r"未登录|请(?:先)?登录|令牌(?:已)?(?:过期|失效)|鉴权失败"
        r"|(?:API ?Key|密钥|身份)(?:无效|验证失败|认证失败)",
    ),
)

SERVICE: tuple[Family, ...] = (
    family(
        "overload",
        Kind.TRANSIENT,
        "overload|model|demand|load|traffic|capacity|error|unavailable|gateway|upstream|busy|experiencing|50|52"
        "|服务|系统|模型|网络",
        r"overloaded(?:_error)?",
        r"(?:unusually |exceptionally |very )?(?:high|heavy|unusual|increased|exceptional) (?:demand|load"
        r"|traffic)",
        r"at (?:full |max(?:imum)? )?capacity|over capacity|capacity (?:constraints|issues|exceeded)"
        r"|temporary capacity|no capacity|MODEL_CAPACITY_EXHAUSTED",
        r"(?:internal|unexpected) (?:server )?error(?: occurred)?|server[ _]error|internal_?server_?error"
        r"|api_error",
        r"service (?:is )?(?:temporarily |currently )?unavailable|temporarily (?:unavailable|overloaded)"
        r"|ServiceUnavailable\w*|\bUNAVAILABLE\b|upstream unavailable",
        r"bad gateway|gateway time-?out|upstream (?:connect|request|error)\S{0,20}",
        r"(?:error|status|code|http|api error)[ :=(]{1,3}(?:code )?5(?:00|02|03|04|20|21|22|23|24|29)\b"
        r"|^5(?:00|02|03|04|29)\b",
        r"\[(?:unavailable|internal|aborted|deadline_exceeded|unknown)\] ?error",
        r"server is (?:busy|overloaded)|model is (?:busy|currently \S{1,12})|currently experiencing",
        r"(?:服务|系统|模型)[^。\n]{0,8}(?:繁忙|过载|不可用|内部错误)|网络错误",
    ),
    family(
        "network",
        Kind.TRANSIENT,
        "connect|econn|etimedout|enotfound|eai_|epipe|ehost|enet|time|deadline|socket|close|fetch|network|stream"
        "|response|reach|sending|decoding|data|tls|getaddrinfo|resol|dns|validation|name",
        r"connection (?:was |has been |is |to \S{1,60}(?: \S{1,12})? (?:was )?)?"
        r"(?:error|lost|dropped|refused|reset|closed|failed|aborted|timed out|interrupted)",
        r"E(?:CONNRESET|CONNREFUSED|CONNABORTED|TIMEDOUT|NOTFOUND|AI_AGAIN|PIPE|HOSTUNREACH|NETUNREACH"
        r"|NETDOWN)",
        r"(?:request|connection|response|stream|operation|api call|read|socket)(?: has)?(?: been)? timed? "
        r"?out",
        r"timeout (?:exceeded|error|while|of \d|waiting)|deadline exceeded|DEADLINE_EXCEEDED|TimeoutError",
        r"socket (?:hang up|connection|closed)|premature close|fetch failed",
        r"network (?:error|request failed|issue|is unreachable|connection)",
        r"stream (?:disconnected|closed|error|ended|interrupted|stalled)\S{0,20}"
        r"|error (?:sending request|decoding response)|disconnected before completion",
        r"no response from|no data (?:arrived|received) for",
        r"(?:unable to|failed to|cannot|could not|can't) (?:connect|reach)",
        r"response (?:was |is |above )?(?:incomplete|cut off|truncated|may be incomplete)|mid-response"
        r"|incomplete (?:response|stream)|empty (?:response|stream)",
        r"TLS handshake|getaddrinfo|name or service not known|temporary failure in name resolution|dns "
        r"(?:error|lookup)",
        r"Type ?Validation failed|connecterror",
    ),
    family(
        "own retries",
        Kind.TRANSIENT,
        "retr|reconnecting|again",
        r"retrying (?:in|after)|reconnecting\W{1,4}\d|retrying \d",
        r"exceeded retry limit|max(?:imum)? retries (?:exceeded|reached)|NonRetriableError|RetriableError",
        r"try again (?:in a (?:moment|few|little)|shortly|later|soon)",
    ),
)
