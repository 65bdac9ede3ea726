"""What happens to text before it has phonemes: cleaning, scripts, Mandarin normalisation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from services.tts.text.english import EnglishLetters, say_addresses
from services.tts.text.mandarin import BakerPhonemes, is_final
from services.tts.text.mandarin_numbers import normalize
from services.tts.text.script_runs import clean, split_by_script


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Bold** and _soft_ `code`", "Bold and soft code"),
        ("# Title\n- one\n* two", "Title one two"),
        ("See [the page](https://a.b/c).", "See the page."),
        ("Hi 😀👍🏽!", "Hi !"),
        ("a\x00b\x1bc\u200bd\u202ee", "a b cde"),
        ("2 * 3 = 6, a*b, a *b* c", "2 × 3 = 6, a × b, a b c"),
        ("As it is [1][^2].[3] So is arr[0].", "As it is. So is arr[0]."),
        ("[2]还有【3】。", "还有。"),
        ("**File** > **Save**，设置>通用, a > B", "File, Save，设置, 通用, a大于B"),
        ("~5 of ~$20, 3 ~5, ~~7~~", "≈5 of ≈$20, 3–5, 7"),
        ("snake_case", "snake case"),
        ("<b>fat</b> text", "fat text"),
        ("It&#39;s Tom&nbsp;&amp; Jerry&#x2019;s &quot;R&amp;D&quot;", 'It\'s Tom & Jerry’s "R&D"'),
        ("a &lt; b &foo; R&D;", "a < b &foo; R&D;"),
        ("２０２４年ＡＢ", "2024年AB"),
        ("，对的", "对的"),
        ('" she said', '" she said'),
        ("-5°C", "-5°C"),
        ("≥18, 10^6 ^_^ and 10⁻⁶", "≥18, 10^6 and 10^-6"),
        ("CO₂ is well‑known", "CO2 is well-known"),
        ("C# and # this", "C# and this"),
        ("a_b@x.org, not a_b", "a_b@x.org, not a b"),
        ("the docs (https://a.b/c) say", "the docs say"),
        ("“谢谢” (xièxie), 北京 (Beijing), 巴黎（Paris）", "“谢谢”, 北京 (Beijing), 巴黎（Paris）"),
        ("See (https://a.b/c).", "See."),
        ("|x| or | a | b |", "absolute value of x or , a , b ,"),
        ("a -> b", "a → b"),
        ("so $E = mc^2$ and 2**10 cost $5", "so E = mc² and 2^10 cost $5"),
        ("2πr, α-rays, 圆周率π, ∆x, 20 kΩ", "2 pi r, alpha-rays, 圆周率pi, delta x, 20 kΩ"),
        ("Born in Москва (СССР)", "Born in Moskva (SSSR)"),
        ("ΔΗ, σοφία, Київ, Երևան", "DI, sofia, Kiiv, Erevan"),
        ("他说「ありがとう」，서울，トヨタ車", "他说「arigatou」，seoul，toyota車"),
        ("नमस्ते, ज़रूर, বাংলা, வணக்கம், สวัสดี, ሰላም", "namaste, jarur, bamla, vanakkam, swasdi, selam"),
        ("𝐇𝐞𝐥𝐥𝐨, 𝟣𝟤", "Hello, 12"),
        ("5 μm, Ελλάδα", "5 µm, Ellada"),
        ("many things](https://a.b/c_d).", "many things."),
        ("周一~周五9：30", "周一–周五9:30"),
        ("😀 ... !!", ""),
        ("---\n", ""),
        ("", ""),
    ],
)
def test_clean(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [
        ("Hello 世界!", "en", [("en", "Hello "), ("zh", "世界!")]),
        ("我用Python写", "en", [("zh", "我用"), ("en", "Python"), ("zh", "写")]),
        ("价格是1,000元", "en", [("zh", "价格是1,000元")]),
        ("iPhone 15 Pro很贵", "zh", [("en", "iPhone 15 Pro"), ("zh", "很贵")]),
        ("220V电压", "en", [("zh", "220V电压")]),
        ("港币HK$30。", "en", [("zh", "港币HK$30。")]),
        ("960万km²。", "en", [("zh", "960万km²。")]),
        ("1080p视频", "en", [("en", "1080p"), ("zh", "视频")]),
        ("7×24小时", "en", [("zh", "7×24小时")]),
        ("GPT-4很强", "zh", [("en", "GPT-4"), ("zh", "很强")]),
        ("气温25°C。", "en", [("zh", "气温25°C。")]),
        ("It's 3.5 km", "zh", [("en", "It's 3.5 km")]),
        ("12:30", "zh", [("zh", "12:30")]),
        ("12:30", "en", [("en", "12:30")]),
        ("“你好”", "en", [("zh", "“你好”")]),
        ("", "en", []),
    ],
)
def test_split_by_script(text: str, default: str, expected: list[tuple[str, str]]) -> None:
    runs = split_by_script(text, default)
    assert [(run.language, run.text) for run in runs] == expected
    assert "".join(run.text for run in runs) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024年5月3日", "二零二四年五月三日"),
        ("2024-05-03", "二零二四年五月三日"),
        ("1998年", "一九九八年"),
        ("10:30", "十点三十分"),
        ("14:05", "十四点零五分"),
        ("2:00", "两点整"),
        ("50%", "百分之五十"),
        ("-3.5%", "负百分之三点五"),
        ("3.14", "三点一四"),
        ("1,234.5元", "一千二百三十四点五元"),
        ("1/2", "二分之一"),
        ("24/7服务，24/7小时", "七天二十四小时服务，七天二十四小时"),
        ("24/7=", "二十四除以七等于"),
        ("3-5个", "三到五个"),
        ("3~5天", "三到五天"),
        ("需要 ~5天，a ≈ 3", "需要 约五天，a约等于三"),
        ("20 ~ 25℃", "二十到二十五摄氏度"),
        ("-3~5℃", "零下三到五摄氏度"),
        ("3天~5天", "三天到五天"),
        ("20℃~25℃", "二十摄氏度到二十五摄氏度"),
        ("10万~20万元", "十万到二十万元"),
        ("气温-3~5℃", "气温零下三到五摄氏度"),
        ("2026-11-28~2026-11-30", "二零二六年十一月二十八日到二零二六年十一月三十日"),
        ("5-10%", "百分之五到百分之十"),
        ("5%～10%", "百分之五到百分之十"),
        ("2010-2020年", "二零一零年到二零二零年"),
        ("1990年~2000年", "一九九零年到二零零零年"),
        ("8:00-10:30，9:00-下午5:30分", "八点整到十点三十分，九点整到下午五点三十分"),
        ("~~5~~", "五"),
        ("3—5天", "三到五天"),
        ("周一-周五", "周一到周五"),
        ("鲁迅（1881—1936）", "鲁迅（一八八一到一九三六）"),
        ("第3章-第5章", "第三章到第五章"),
        ("1/2-3/4", "二分之一到四分之三"),
        ("$10-20", "十到二十美元"),
        ("$10万-$20万", "十万美元到二十万美元"),
        ("10-20€", "十到二十欧元"),
        ("结果是-5", "结果是负五"),
        ("-$5", "负五美元"),
        ("-3到5度", "零下三到五度"),
        ("-3–-1℃", "零下三到零下一摄氏度"),
        ("5-3=2", "五减三等于二"),
        ("结果=11-3+2", "结果等于十一减三加二"),
        ("10/2=5", "十除以二等于五"),
        ("1920x1080", "一千九百二十乘一千零八十"),
        ("9.8m/s²，2000元", "九点八米每二次方秒，两千元"),
        ("G1234次，航班CA1234，110报警", "G幺二三四次，航班CA幺二三四，幺幺零报警"),
        ("10^6个", "十的六次方个"),
        ("1½杯", "一又二分之一杯"),
        ("3:2", "三比二"),
        ("4.5/5分，8/10分，05/03", "四点五，满分五分，八，满分十分，五月三日"),
        ("120公里/小时", "一百二十公里每小时"),
        ("5万元/平方米，约30人/天，60km/小时", "五万元每平方米，约三十人每天，六十公里每小时"),
        (
            "100㎡，3㎞，红/绿，128GB/256GB",
            "一百平方米，三公里，红/绿，一百二十八吉字节/二百五十六吉字节",
        ),
        ("US$5，HK$30，NT$2万", "五美元，三十港元，二万新台币"),
        ("熔点-38.83℃，12点-14点", "熔点零下三十八点八三摄氏度，十二点到十四点"),
        ("3×10^8 m/s，报警110", "三 乘以 十的八次方米每秒，报警幺幺零"),
        ("<10岁", "小于十岁"),
        (">18岁", "大于十八岁"),
        ("> 18岁", "十八岁"),
        ("5μm，10nm，20Ω", "五微米，十纳米，二十欧姆"),
        ("第Ⅳ章，Ⅲ期临床", "第四章，三期临床"),
        ("①打开②2次", "一, 打开 二, 两次"),
        ("2025-26赛季，2026财年", "二零二五到二六赛季，二零二六财年"),
        ("2020到2023年", "二零二零年到二零二三年"),
        ("比分是2-1，以3-0击败", "比分是二比一，以三比零击败"),
        ("2024年3月14日15:09", "二零二四年三月十四日十五点零九分"),
        ("08年，90后", "零八年，九零后"),
        ("1.2.3", "一点二点三"),
        ("公元前551年—公元前479年", "公元前五百五十一年到公元前四百七十九年"),
        ("前551—前479", "前五百五十一到前四百七十九"),
        ("血压120/80，960万km²", "血压一百二十，八十，九百六十万平方公里"),
        ("拨打110或120", "拨打幺幺零或幺二零"),
        ("400-123-4567", "四零零幺二三四五六七"),
        ("号是12345678", "号是幺二三四五六七八"),
        ("021-6888 8888转801，转500元", "零二幺六八八八八八八八转八零幺，转五百元"),
        ("身高1米75，3米50厘米", "身高一米七五，三米五十厘米"),
        ("血压120/80mmHg", "血压一百二十，八十毫米汞柱"),
        ("(010) 12345678", "零幺零幺二三四五六七八"),
        ("302房间", "三零二房间"),
        ("2小时，第2分钟", "两小时，第二分钟"),
        ("010-12345678", "零幺零幺二三四五六七八"),
        ("2个人", "两个人"),
        ("第2个", "第二个"),
        ("12个", "十二个"),
        ("25℃", "二十五摄氏度"),
        ("-5°C", "零下五摄氏度"),
        ("5km", "五公里"),
        ("$3万", "三万美元"),
        ("¥99，￥1.5元", "九十九元，一点五元"),
        ("波音747，985、211高校", "波音七四七，九八五、二一一高校"),
        ("39°54′，100+人，2-3个月", "三十九度五十四分，一百多人，两到三个月"),
        ("13812345678", "幺三八幺二三四五六七八"),
        ("007", "零零七"),
        ("10010", "一万零一十"),
        ("110", "一百一十"),
        ("20000", "两万"),
        ("100000000", "一亿"),
        ("1000000001", "十亿零一"),
        ("3+4=7", "三加四等于七"),
        ("12345678901234567890", "一二三四五六七八九零一二三四五六七八九零"),
    ],
)
def test_normalize_mandarin(text: str, expected: str) -> None:
    assert normalize(clean(text)) == expected


def phonemes_of(
    folder: Path, symbols: Sequence[str], syllables: dict[str, list[str]]
) -> BakerPhonemes:
    """Of a voice that has these alone."""
    ids = {symbol: at for at, symbol in enumerate(symbols)}
    mapper = folder / "mapper.json"
    mapper.write_text(json.dumps({"symbol_to_id": ids, "pinyin_dict": syllables}), "utf-8")
    return BakerPhonemes(mapper)


def test_a_character_that_no_dictionary_reads_is_left_out_and_the_rest_is_spoken(
    tmp_path: Path,
) -> None:
    """881 of them come back with a tone behind them, and took the rest of the answer along."""
    phonemes = phonemes_of(tmp_path, ("h", "ao3", "#0", "#1"), {"hao": ["h", "ao"]})
    every = (*range(0x3400, 0x4DC0), *range(0x4E00, 0xA000))
    for at in range(0, len(every), 200):
        assert phonemes.symbols("好" + "".join(map(chr, every[at : at + 200])))
    assert phonemes.symbols("好㗎好") == ["sil", "h", "ao3", "#1", "h", "ao3", "sil"]


@pytest.mark.parametrize(
    ("written", "signs"),
    [
        (r"\( x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a} \).", "x = (−b ± √(b² − 4ac))∕2a."),
        (r"\(\pi r^{2}\), \(25^{\circ}\text{C}\), \(x_{1}\)", "pi r², 25°C, x1"),
        (r"$x_{i+1} \cdot 10^{n}$", "x i+1 × 10^n"),
        (r"C:\new\text \n {x}", "C: new text n {x}"),
        ("勾股定理是$a^2+b^2=c^2$。", "勾股定理是a的平方加b的平方等于c的平方。"),
        (r"$\frac{-b}{2a}$是$x^{-1}$，$|x|$", "负b除以2a是x的负1次方，x的绝对值"),
        (r"和$\sum_{i=1}^{n} i$，5 m²，a=b", "和从i等于1到n求和， i，5 m²，a等于b"),
        ("看https://a.b/?c=d+e", "看https://a.b/?c=d+e"),
    ],
)
def test_formulas_are_said_by_their_signs(written: str, signs: str) -> None:
    assert clean(written) == signs


def test_what_is_compared_is_no_tag() -> None:
    assert clean("if a<b then c>d") == "if a<b then c>d"
    assert clean('<p class="x">Hi<br/> <a href=y>you</a></p>') == "Hi you"
    assert clean("<video controls>H<sub>2</sub>O") == "H 2 O"
    assert clean("See <https://a.b/c?d=e>.") == "See https://a.b/c?d=e."


@pytest.mark.parametrize(
    ("written", "same"),
    [("10~20 minutes", "10 to 20 minutes"), ("5-10%", "5 to 10%"),
     ("8:00–10:00", "8:00 to 10:00"), ("$10-$20", "$10 to $20"),
     ("1.5–2.5 kg", "1.5 to 2.5 kg"), ("9 AM – 5 PM", "9 AM to 5 PM"),
     ("9 a.m.–5 p.m.", "9 a.m. to 5 p.m."), ("$10-20", "10 to $20"), ("10-20 €", "10 to €20"),
     ("$20k–$30k", "$20k to $30k"), ("19th–20th", "19th to 20th"), ("3°C–5°C", "3°C to 5°C"),
     ("Mon–Fri, May–Sept", "Monday to Friday, May to September"), ("Sat: 9–5", "Saturday: 9 to 5"),
     ("pages 5-10.", "pages 5 to 10."),
     ("1914—1918", "1914 to 1918"),
     ("-3–5 °C", "minus 3 to 5 °C"), ("It is −12.5.", "It is minus 12.5."),
     ("x = -3", "x equals minus 3"), ("-$5", "minus $5"), ("7 − 3", "7 minus 3"),
     ("12,50 €", "€12.50"), ("1.299,00 €", "€1299"), ("49€", "€49"), ("1 234,56 €", "€1234.56"),
     ("$3.2bn", "$3.2 billion"), ("3M users", "3 million users"),
     ("2.5M+ downloads", "2.5 million+ downloads"),
     ("a 3M tape, 7B models", "a 3 M tape, 7 B models"),
     ("steps 1,2,3", "steps 1, 2, 3"), ("1,000,000", "1000000"),
     ("Call 555-1234.", "Call 5 5 5, 1 2 3 4."),
     ("Call +1 (555) 123-4567", "Call plus 1, 5 5 5, 1 2 3, 4 5 6 7"),
     ("zip 02134", "zip 0 2 1 3 4"), ("On 14.03.2025.", "On 2025-03-14."),
     ("It is 2/3.", "It is 2/3 ."), ("1½", "1 and ½"), ("3.5/5", "3.5 out of 5"),
     ("It is 10/10.", "It is 10 out of 10."), ("on 10/10 at noon", "on October tenth at noon"),
     ("I give it an 8/10, a 4/5!", "I give it an 8 out of 10, a 4 out of 5!"),
     ("9.8 m/s²", "9.8 meters per second squared"),
     ("a 4x4 grid, 1920x1080", "a 4 by 4 grid, 1920 by 1080"), ("x = -b", "x equals minus b"),
     ("f(x), 2FA", "f of x, 2 F.A."),
     ("x = 3/2 − y", "x equals 3 over 2 minus y"), ("on 3/2 we", "on March second we"),
     ("1.6:1", "1.6 to 1"), ("every 4-6h", "every 4 to 6h"),
     ("₹500", "500 rupees"), ("ca. 1850", "circa 1850"), ("£425/yr", "£425 per year"),
     ("$1.99/lb", "$1.99 per pound"),
     ("5 million km", "5 million kilometers"), ("2 Tbsp. salt", "2 tablespoons salt"),
     ("100s of people", "hundreds of people"),
     ("$5/month", "$5 per month"), ("Python 3.10", "Python 3 point 1 0"),
     ("330 m, 5 m/s, 20 m²", "330 meters, 5 meters per second, 20 square meters"),
     ("6'2\" tall", "6 foot 2 tall"), ("C#", "C sharp"), ("see example.com", "see example dot com"),
     ("10^23", "10 to the power of 23"), ("a ≥ 5", "A. greater than or equal to 5"),
     ("(−b ± √x)∕2a", "( minus b plus or minus square root of x) over 2a"),
     ("1∕2, 5∕4, a∕b", "one half, 5 over 4, A. over b"),
     ("∑(i = 1 … n) i", "the sum from i equals 1 to n of i"), ("sin x, a sin", "sine x, a sin"),
     ("lim(x → 0) f′(x)", "the limit as x goes to 0 of f prime(x)"), ("x ∈ R", "x in R"),
     ("She said no.", "She said no ."), ("a dried fig.", "a dried fig ."),
     ("no. 5, fig. 3", "number 5, figure 3"), ("It orbits the Sun.", "It orbits the Sun ."),
     ("8am to 5pm", "8 a.m. to 5pm"), ("It is 10AM.", "It is 10 AM."),
     ("It is $300, 20 percent off.", "It is 300 dollars, 20 percent off."),
     ("It is £20 (two people), here.", "It is 20 pounds (two people), here."),
     ("Call 911 or 112, call 110 people", "Call 9 1 1 or 1 1 2, call one hundred ten people"),
     ("<10 ms", "less than 10 ms"), (">5 GB", "greater than 5 GB"), ("> A quote", "A quote"),
     ("50-50, 24x7, Ctrl+C, 2 yrs", "50 50, 24 7, Control+C, 2 years"),
     ("worth $3.5T", "worth $3.5 trillion"),
     ("v2.1.3 at 10.0.0.12.", "v 2 point 1 point 3 at 10 dot 0 dot 0 dot 12."),
     ("2x - 1 = n-1, y - x", "2 x minus 1 equals n minus 1, y minus x"),
     ("b² - 4ac, x^2 - 4x", "b squared minus 4ac, x squared minus 4 x"),
     ("10 - 2x", "10 minus 2 x"),
     ("an 80/20 split", "an 80 20 split"), ("Windows 10/11", "Windows 10 or 11"),
     ("(-b) of F-16", "( minus b) of F-16"), ("off .5 or $.99", "off 0.5 or $0.99"),
     ("a 16:9 one, John 3:1", "a 16 to 9 one, John 3:1"), ("a 5x7.", "a 5 by 7."),
     ("$60k/yr, 90 km/hr", "60 thousand dollars per year, 90 kilometers per hour"),
     ("20 EUR, 5 million USD", "€20, $5 million"), ("2h 30m", "2 hours 30 minutes"),
     ("He is 5'6 tall", "He is 5 foot 6 tall"), ("9 sq. ft of it", "9 square feet of it"),
     ("½ tsp salt, 1½ tbsp oil", "½ teaspoon salt, 1½ tablespoons oil"),
     ("½ lb or ¼ oz. of it", "½ pound or ¼ ounce of it"),
     ("17 x 23 = 391, 2 x 10^8", "17 times 23 equals 391, 2 times 10 to the power of 8"),
     ("a 4 x 4 grid, 4x5=20", "a 4 by 4 grid, 4 times 5 equals 20"),
     ("2x = 11 - 3 = 8, 12 - 4 is 8", "2x equals 11 minus 3 equals 8, 12 minus 4 is 8"),
     ("1/3 + 1/4 = 7/12", "1/3 + 1/4 equals 7 over 12"),
     ("on 3/4, on 3/4 of it", "on March fourth, on 3/4 of it"),
     ("May 3-5, June 10–12", "May third to fifth, June tenth to twelfth"),
     ("212.555.0147 ext. 12", "212-555-0147 extension 12"),
     ("JSON and .NET", "json and dot net"), ("TL;DR: Cmd", "T.L.D.R.: Command"),
     ("max. 3, 20g", "maximum 3, 20 grams"),
     ("8 hours/night, 3x/week", "8 hours per night, 3x per week"),
     ("UTC-5", "UTC minus 5"), ("U.S. GPT-4, F-16", "U.S. GPT-4, F-16")],
)  # fmt: skip
def test_english_numbers_are_said_with_what_stands_at_them(written: str, same: str) -> None:
    letters = EnglishLetters()
    assert letters.parts(clean(written), 500) == letters.parts(same, 500)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Queen Victoria", "kwˈin vɪktˈɔɹiə,"),
        ("Type C", "tˈIp sˈi,"),
        ("Gen Z", "ʤˈɛn zˈi,"),
        ("Louis XIV", "lˈui ðə fˌɔɹtˈinθ,"),
        ("Gen. Lee", "ʤˈɛnəɹəl lˈi,"),
    ],
)
def test_names_are_no_roman_numerals_and_generations_no_generals(written: str, said: str) -> None:
    assert EnglishLetters().parts(written, 99) == [said]


def test_a_letter_that_stands_alone_is_no_article() -> None:
    letters = EnglishLetters()
    assert "ˈA" not in letters.parts("It was a less than good tan I got.", 99)[0]
    assert letters.parts("A", 9) == ["ˈA,"]
    assert letters.parts("A. ", 9) == ["ˈA."]


def test_addresses_are_said() -> None:
    said = say_addresses("Go to https://www.example.com/a_b, or mail me@x.org.")
    assert said == "Go to example dot com slash a underscore b, or mail me at x dot org."


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("他跑得快，记得吃得下", "de5 de5 de5"),
        ("我得去了，得先洗手", "dei3 dei3"),
        ("他得到了，得了感冒", "de2 de2"),
        ("认真地学习，更好地理解，慢慢地走", "de5 de5 de5"),
        ("出生地是北京，地上，具体地点", "di4 di4 di4"),
        ("头发很长，长约两米，长颈鹿", "chang2 chang2 chang2"),
        ("长得高，长了芽，校长", "zhang3 de5 zhang3 zhang3"),
        ("选为，长度为三米，为您，为人民", "wei2 chang2 wei2 wei4 wei4"),
        ("这种植物，一切都会好，两只猫", "zhong3 zhi2 dou1 zhi1"),
        ("基本相同，网上相关", "xiang1 xiang1"),
        ("两行字，每一行，不行，这一行动", "hang2 hang2 xing2 xing2"),
    ],
)
def test_a_character_that_is_a_word_is_read_as_that_word(
    text: str, readings: str, tmp_path: Path
) -> None:
    bases = "de dei di chang zhang wei hang xing zhong zhi dou xiang".split()
    finals = [f"{base}{tone}" for base in bases for tone in range(1, 6)]
    phonemes = phonemes_of(tmp_path, finals, {base: ["", base] for base in bases})
    said = phonemes.symbols(normalize(text))
    assert " ".join(symbol for symbol in said if is_final(symbol)) == readings
